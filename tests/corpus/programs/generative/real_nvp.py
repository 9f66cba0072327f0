"""Generative: a normalizing flow; `train_step` and `test_step` around one log-loss."""

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops, regularizers

keras.utils.set_random_seed(42)

rng = np.random.default_rng(45)
angle = rng.uniform(0, np.pi, size=600)
upper = rng.integers(0, 2, size=600)
data = np.stack([np.cos(angle) + upper, np.sin(angle) * (1 - 2 * upper)], axis=1) + rng.normal(0, 0.05, size=(600, 2))
norm = layers.Normalization()
norm.adapt(data.astype("float32"))
normalized_data = np.array(norm(data.astype("float32")))


def Coupling(input_shape):
    inputs = layers.Input(shape=(input_shape,))
    hidden, reg = inputs, 0.01
    t_layers, s_layers = inputs, inputs
    for _ in range(2):
        t_layers = layers.Dense(24, activation="relu", kernel_regularizer=regularizers.l2(reg))(t_layers)
        s_layers = layers.Dense(24, activation="relu", kernel_regularizer=regularizers.l2(reg))(s_layers)
    t_layer = layers.Dense(input_shape, kernel_regularizer=regularizers.l2(reg))(t_layers)
    s_layer = layers.Dense(input_shape, activation="tanh", kernel_regularizer=regularizers.l2(reg))(s_layers)
    return keras.Model(inputs=hidden, outputs=[s_layer, t_layer])


class RealNVP(keras.Model):
    def __init__(self, num_coupling_layers):
        super().__init__()
        self.num_coupling_layers = num_coupling_layers
        self.masks = np.array([[0, 1], [1, 0]] * (num_coupling_layers // 2), dtype="float32")
        self.loss_tracker = keras.metrics.Mean(name="loss")
        self.layers_list = [Coupling(2) for i in range(num_coupling_layers)]

    @property
    def metrics(self):
        return [self.loss_tracker]

    def call(self, x, training=True):
        log_det_inv = 0
        direction = -1 if training else 1
        for i in range(self.num_coupling_layers)[::direction]:
            x_masked = x * self.masks[i]
            reversed_mask = 1 - self.masks[i]
            s, t = self.layers_list[i](x_masked)
            s *= reversed_mask
            t *= reversed_mask
            gate = (direction - 1) / 2
            x = reversed_mask * (x * ops.exp(direction * s) + direction * t * ops.exp(gate * s)) + x_masked
            log_det_inv += gate * ops.sum(s, axis=1)
        return x, log_det_inv

    def log_loss(self, x):
        y, logdet = self(x)
        log_likelihood = -0.5 * ops.sum(ops.square(y), axis=1) - np.log(2 * np.pi) + logdet
        return -ops.mean(log_likelihood)

    def train_step(self, data):
        with tf.GradientTape() as tape:
            loss = self.log_loss(data)
        g = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(g, self.trainable_variables, strict=True))
        self.loss_tracker.update_state(loss)
        return {"loss": self.loss_tracker.result()}

    def test_step(self, data):
        loss = self.log_loss(data)
        self.loss_tracker.update_state(loss)
        return {"loss": self.loss_tracker.result()}


model = RealNVP(num_coupling_layers=2)
model.compile(optimizer=keras.optimizers.Adam(learning_rate=0.001))
history = model.fit(normalized_data, batch_size=60, epochs=3, verbose=2, validation_split=0.2, shuffle=False)
