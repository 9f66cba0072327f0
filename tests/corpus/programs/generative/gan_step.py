"""Generative: a GAN with a manually written loop, as in TensorFlow's tutorial; gan_step.dtj.py has `dtj.train`."""

import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(68)
noise_dim = 4

generator = keras.Sequential(
    [keras.Input((noise_dim,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(2)]
)
discriminator = keras.Sequential([keras.Input((2,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(1)])
cross_entropy = keras.losses.BinaryCrossentropy(from_logits=True)
generator_optimizer = keras.optimizers.SGD(0.05)
discriminator_optimizer = keras.optimizers.SGD(0.05)

rng = np.random.default_rng(71)
points = (rng.normal(size=(320, 2)) * [0.3, 0.1] + [1.0, -0.5]).astype("float32")
noise = rng.normal(size=(320, noise_dim)).astype("float32")
dataset = tf.data.Dataset.from_tensor_slices((points, noise)).batch(32)


@tf.function
def train_step(images, noise):
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
    return gen_loss, disc_loss


losses = {"loss": [], "disc_loss": []}
for _ in range(3):
    each = [train_step(*batch) for batch in dataset]
    losses["loss"].append(float(np.mean([gen for gen, _ in each])))
    losses["disc_loss"].append(float(np.mean([disc for _, disc in each])))
