"""Generative: a GAN whose `train_step` has two optimizers and two losses; a callback saves pictures."""

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops

BAND = 0.01
REASON = "the codes are drawn by each replica"
CONTROL = (
    (
        "keras.random.normal(shape=(batch_size, self.latent_dim), seed=self.seed_generator)",
        "ops.reshape(real_images, (-1, 144))[:, 40 : 40 + self.latent_dim]",
    ),
)

keras.utils.set_random_seed(41)
latent_dim = 8

discriminator = keras.Sequential(
    [
        keras.Input(shape=(12, 12, 1)),
        layers.Conv2D(8, kernel_size=4, strides=2, padding="same"),
        layers.LeakyReLU(negative_slope=0.2),
        layers.Flatten(),
        layers.Dense(1, activation="sigmoid"),
    ],
    name="discriminator",
)
generator = keras.Sequential(
    [
        keras.Input(shape=(latent_dim,)),
        layers.Dense(6 * 6 * 8),
        layers.Reshape((6, 6, 8)),
        layers.LeakyReLU(negative_slope=0.2),
        layers.Conv2DTranspose(1, kernel_size=4, strides=2, padding="same", activation="sigmoid"),
    ],
    name="generator",
)


class GAN(keras.Model):
    def __init__(self, discriminator, generator, latent_dim):
        super().__init__()
        self.discriminator = discriminator
        self.generator = generator
        self.latent_dim = latent_dim
        self.seed_generator = keras.random.SeedGenerator(1337)

    def compile(self, d_optimizer, g_optimizer, loss_fn):
        super().compile()
        self.d_optimizer = d_optimizer
        self.g_optimizer = g_optimizer
        self.loss_fn = loss_fn
        self.d_loss_metric = keras.metrics.Mean(name="d_loss")
        self.g_loss_metric = keras.metrics.Mean(name="g_loss")

    @property
    def metrics(self):
        return [self.d_loss_metric, self.g_loss_metric]

    def train_step(self, real_images):
        batch_size = ops.shape(real_images)[0]
        codes = keras.random.normal(shape=(batch_size, self.latent_dim), seed=self.seed_generator)
        combined_images = ops.concatenate([self.generator(codes), real_images], axis=0)
        labels = ops.concatenate([ops.ones((batch_size, 1)), ops.zeros((batch_size, 1))], axis=0)
        with tf.GradientTape() as tape:
            predictions = self.discriminator(combined_images)
            d_loss = self.loss_fn(labels, predictions)
        grads = tape.gradient(d_loss, self.discriminator.trainable_weights)
        self.d_optimizer.apply_gradients(zip(grads, self.discriminator.trainable_weights, strict=True))

        codes = keras.random.normal(shape=(batch_size, self.latent_dim), seed=self.seed_generator)
        with tf.GradientTape() as tape:
            predictions = self.discriminator(self.generator(codes))
            g_loss = self.loss_fn(ops.zeros((batch_size, 1)), predictions)
        grads = tape.gradient(g_loss, self.generator.trainable_weights)
        self.g_optimizer.apply_gradients(zip(grads, self.generator.trainable_weights, strict=True))
        self.d_loss_metric.update_state(d_loss)
        self.g_loss_metric.update_state(g_loss)
        return {"d_loss": self.d_loss_metric.result(), "g_loss": self.g_loss_metric.result()}


class GANMonitor(keras.callbacks.Callback):
    def __init__(self, num_img=3, latent_dim=latent_dim):
        super().__init__()
        self.num_img = num_img
        self.latent_dim = latent_dim

    def on_epoch_end(self, epoch, logs=None):
        codes = keras.random.normal(shape=(self.num_img, self.latent_dim), seed=7)
        for i, image in enumerate(self.model.generator(codes)):
            keras.utils.array_to_img(image).save(f"generated_img_{epoch:03d}_{i}.png")


rng = np.random.default_rng(44)
row, column = np.mgrid[0:12, 0:12]
centre = rng.uniform(3, 9, size=(320, 2, 1, 1))
images = np.exp(-((row - centre[:, 0]) ** 2 + (column - centre[:, 1]) ** 2) / 5)[..., None].astype("float32")
dataset = tf.data.Dataset.from_tensor_slices(images).batch(32)

gan = GAN(discriminator=discriminator, generator=generator, latent_dim=latent_dim)
gan.compile(
    d_optimizer=keras.optimizers.Adam(learning_rate=0.0003),
    g_optimizer=keras.optimizers.Adam(learning_rate=0.0003),
    loss_fn=keras.losses.BinaryCrossentropy(),
)
history = gan.fit(dataset, epochs=3, callbacks=[GANMonitor()])
