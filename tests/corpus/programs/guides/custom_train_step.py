"""Guides: "Customizing what happens in fit"; `train_step` with sample weights, and `test_step`."""

import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(55)


class CustomModel(keras.Model):
    def train_step(self, data):
        if len(data) == 3:
            x, y, sample_weight = data
        else:
            sample_weight = None
            x, y = data
        with tf.GradientTape() as tape:
            y_pred = self(x, training=True)
            loss = self.compute_loss(y=y, y_pred=y_pred, sample_weight=sample_weight)
        trainable_vars = self.trainable_variables
        gradients = tape.gradient(loss, trainable_vars)
        self.optimizer.apply(gradients, trainable_vars)
        for metric in self.metrics:
            if metric.name == "loss":
                metric.update_state(loss)
            else:
                metric.update_state(y, y_pred, sample_weight=sample_weight)
        return {m.name: m.result() for m in self.metrics}

    def test_step(self, data):
        x, y = data
        y_pred = self(x, training=False)
        loss = self.compute_loss(y=y, y_pred=y_pred)
        for metric in self.metrics:
            if metric.name == "loss":
                metric.update_state(loss)
            else:
                metric.update_state(y, y_pred)
        return {m.name: m.result() for m in self.metrics}


rng = np.random.default_rng(58)
x = rng.random((400, 32)).astype("float32")
y = x[:, :4].sum(axis=1, keepdims=True)
sw = rng.random((400, 1)).astype("float32")

inputs = keras.Input(shape=(32,))
outputs = keras.layers.Dense(1)(keras.layers.Dense(16, activation="tanh")(inputs))
model = CustomModel(inputs, outputs)
model.compile(optimizer="adam", loss="mse", metrics=["mae"])
history = model.fit(x, y, sample_weight=sw, epochs=3, shuffle=False)
scores = model.evaluate(x, y, verbose=0)
