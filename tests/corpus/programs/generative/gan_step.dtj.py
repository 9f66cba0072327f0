"""Generative: the GAN of gan_step.py, its step taken by `dtj.train`."""

import keras
import numpy as np
import tensorflow as tf

import dtj

dtj.init()
keras.utils.set_random_seed(68)
noise_dim = 4

generator = keras.Sequential(
    [keras.Input((noise_dim,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(2)]
)
discriminator = keras.Sequential([keras.Input((2,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(1)])
cross_entropy = keras.losses.BinaryCrossentropy(from_logits=True)
generator_optimizer = keras.optimizers.SGD(0.05)
discriminator_optimizer = keras.optimizers.SGD(0.05)
generator_optimizer.build(generator.trainable_variables)
discriminator_optimizer.build(discriminator.trainable_variables)

rng = np.random.default_rng(71)
points = (rng.normal(size=(320, 2)) * [0.3, 0.1] + [1.0, -0.5]).astype("float32")
noise = rng.normal(size=(320, noise_dim)).astype("float32")
dataset = tf.data.Dataset.from_tensor_slices((points, noise)).batch(32)


def train_step(state, batch):
    images, noise = batch
    with tf.GradientTape() as gen_tape, tf.GradientTape() as disc_tape:
        generated = generator(noise, training=True)
        real_output, fake_output = discriminator(images, training=True), discriminator(generated, training=True)
        gen_loss = cross_entropy(tf.ones_like(fake_output), fake_output)
        disc_loss = cross_entropy(tf.ones_like(real_output), real_output)
        disc_loss += cross_entropy(tf.zeros_like(fake_output), fake_output)
    generator_gradients = gen_tape.gradient(gen_loss, generator.trainable_variables)
    discriminator_gradients = disc_tape.gradient(disc_loss, discriminator.trainable_variables)
    generator_optimizer.apply(generator_gradients, generator.trainable_variables)
    discriminator_optimizer.apply(discriminator_gradients, discriminator.trainable_variables)
    return {"loss": dtj.all_reduce(gen_loss, "sum"), "disc_loss": dtj.all_reduce(disc_loss, "sum")}


state = {"generator": generator, "discriminator": discriminator, "g": generator_optimizer, "d": discriminator_optimizer}
history = dtj.train(train_step, state=state, data=dataset, epochs=3)
