"""Generative: denoising diffusion; `train_step`, `test_step`, and a second network that follows by EMA."""

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops

BAND = 0.08
REASON = "noise and times are drawn by each replica"
CONTROL = (
    ("keras.random.normal(shape=ops.shape(images), seed=self.seed_generator)", "ops.sin(40 * images)"),
    (
        "keras.random.uniform(shape=shape, minval=0.1, maxval=1.4, seed=self.seed_generator)",
        "0.1 + ops.mean(ops.abs(images), axis=(1, 2, 3), keepdims=True) + 0 * ops.ones(shape)",
    ),
)

keras.utils.set_random_seed(45)


def get_network():
    noisy_images, noise_variances = keras.Input(shape=(8, 8, 1)), keras.Input(shape=(1, 1, 1))
    e = layers.UpSampling2D(size=8, interpolation="nearest")(noise_variances)
    x = layers.Concatenate()([layers.Conv2D(8, kernel_size=1)(noisy_images), e])
    x = layers.Conv2D(16, kernel_size=3, padding="same", activation="swish")(x)
    x = layers.Conv2D(1, kernel_size=1, kernel_initializer="zeros")(x)
    return keras.Model([noisy_images, noise_variances], x, name="residual_unet")


class DiffusionModel(keras.Model):
    def __init__(self):
        super().__init__()
        self.normalizer = layers.Normalization()
        self.network = get_network()
        self.ema_network = keras.models.clone_model(self.network)
        self.seed_generator = keras.random.SeedGenerator(3)

    def compile(self, **kwargs):
        super().compile(**kwargs)
        self.noise_loss_tracker = keras.metrics.Mean(name="n_loss")

    @property
    def metrics(self):
        return [self.noise_loss_tracker]

    def denoise(self, noisy_images, noise_rates, network):
        return network([noisy_images, noise_rates**2])

    def noisy(self, images):
        images = self.normalizer(images)
        noises = keras.random.normal(shape=ops.shape(images), seed=self.seed_generator)
        shape = (ops.shape(images)[0], 1, 1, 1)
        angle = keras.random.uniform(shape=shape, minval=0.1, maxval=1.4, seed=self.seed_generator)
        return ops.cos(angle) * images + ops.sin(angle) * noises, noises, ops.sin(angle)

    def train_step(self, images):
        noisy_images, noises, noise_rates = self.noisy(images)
        with tf.GradientTape() as tape:
            pred_noises = self.denoise(noisy_images, noise_rates, self.network)
            noise_loss = self.loss(noises, pred_noises)
        gradients = tape.gradient(noise_loss, self.network.trainable_weights)
        self.optimizer.apply_gradients(zip(gradients, self.network.trainable_weights, strict=True))
        self.noise_loss_tracker.update_state(noise_loss)
        for weight, ema_weight in zip(self.network.weights, self.ema_network.weights, strict=True):
            ema_weight.assign(0.9 * ema_weight + 0.1 * weight)
        return {m.name: m.result() for m in self.metrics}

    def test_step(self, images):
        noisy_images, noises, noise_rates = self.noisy(images)
        pred_noises = self.denoise(noisy_images, noise_rates, self.ema_network)
        self.noise_loss_tracker.update_state(self.loss(noises, pred_noises))
        return {m.name: m.result() for m in self.metrics}


rng = np.random.default_rng(48)
row, column = np.mgrid[0:8, 0:8]
centre = rng.uniform(2, 6, size=(400, 2, 1, 1))
images = np.exp(-((row - centre[:, 0]) ** 2 + (column - centre[:, 1]) ** 2) / 4)[..., None].astype("float32")
train_dataset = tf.data.Dataset.from_tensor_slices(images[:320]).batch(32, drop_remainder=True)
val_dataset = tf.data.Dataset.from_tensor_slices(images[320:]).batch(32, drop_remainder=True)

model = DiffusionModel()
model.compile(
    optimizer=keras.optimizers.AdamW(learning_rate=1e-2, weight_decay=1e-4), loss=keras.losses.MeanAbsoluteError()
)
model.normalizer.adapt(train_dataset)
history = model.fit(train_dataset, epochs=4, validation_data=val_dataset)
