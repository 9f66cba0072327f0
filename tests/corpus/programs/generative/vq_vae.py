"""Generative: vector quantization; a layer adds two losses to a codebook and passes gradients through."""

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops

keras.utils.set_random_seed(43)


class VectorQuantizer(layers.Layer):
    def __init__(self, num_embeddings, embedding_dim, beta=0.25, **kwargs):
        super().__init__(**kwargs)
        self.embedding_dim, self.num_embeddings, self.beta = embedding_dim, num_embeddings, beta
        self.embeddings = self.add_weight(
            shape=(embedding_dim, num_embeddings),
            initializer=keras.initializers.RandomUniform(seed=1),
            name="embeddings_vqvae",
        )

    def call(self, x):
        input_shape = ops.shape(x)
        flattened = ops.reshape(x, (-1, self.embedding_dim))
        similarity = ops.matmul(flattened, self.embeddings)
        distances = ops.sum(flattened**2, axis=1, keepdims=True) + ops.sum(self.embeddings**2, axis=0) - 2 * similarity
        encodings = ops.one_hot(ops.argmin(distances, axis=1), self.num_embeddings)
        quantized = ops.reshape(ops.matmul(encodings, ops.transpose(self.embeddings)), input_shape)
        commitment_loss = ops.mean((ops.stop_gradient(quantized) - x) ** 2)
        codebook_loss = ops.mean((quantized - ops.stop_gradient(x)) ** 2)
        self.add_loss(self.beta * commitment_loss + codebook_loss)
        return x + ops.stop_gradient(quantized - x)


class VQVAETrainer(keras.models.Model):
    def __init__(self, train_variance, vqvae, **kwargs):
        super().__init__(**kwargs)
        self.train_variance = train_variance
        self.vqvae = vqvae
        self.total_loss_tracker = keras.metrics.Mean(name="total_loss")
        self.reconstruction_loss_tracker = keras.metrics.Mean(name="reconstruction_loss")

    @property
    def metrics(self):
        return [self.total_loss_tracker, self.reconstruction_loss_tracker]

    def train_step(self, x):
        with tf.GradientTape() as tape:
            reconstructions = self.vqvae(x)
            reconstruction_loss = ops.mean((x - reconstructions) ** 2) / self.train_variance
            total_loss = reconstruction_loss + sum(self.vqvae.losses)
        grads = tape.gradient(total_loss, self.vqvae.trainable_variables)
        self.optimizer.apply_gradients(zip(grads, self.vqvae.trainable_variables, strict=True))
        self.total_loss_tracker.update_state(total_loss)
        self.reconstruction_loss_tracker.update_state(reconstruction_loss)
        return {m.name: m.result() for m in self.metrics}


inputs = keras.Input(shape=(12, 12, 1))
x = layers.Conv2D(8, 3, activation="relu", strides=2, padding="same")(inputs)
encoded = layers.Conv2D(4, 1, padding="same")(x)
quantized = VectorQuantizer(16, 4, name="vector_quantizer")(encoded)
x = layers.Conv2DTranspose(8, 3, activation="relu", strides=2, padding="same")(quantized)
vqvae = keras.Model(inputs, layers.Conv2DTranspose(1, 3, padding="same")(x))

rng = np.random.default_rng(46)
row, column = np.mgrid[0:12, 0:12]
centre = rng.uniform(3, 9, size=(400, 2, 1, 1))
images = np.exp(-((row - centre[:, 0]) ** 2 + (column - centre[:, 1]) ** 2) / 5)[..., None].astype("float32") - 0.5

trainer = VQVAETrainer(float(np.var(images)), vqvae)
trainer.compile(optimizer=keras.optimizers.Adam())
history = trainer.fit(images, epochs=3, batch_size=40, shuffle=False)
