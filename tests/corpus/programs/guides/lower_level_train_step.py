"""Guides: a `train_step` without `compile(loss=…)`, its own tracker and metric, a clipped global norm."""

import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(56)


class CustomModel(keras.Model):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.loss_tracker = keras.metrics.Mean(name="loss")
        self.mae_metric = keras.metrics.MeanAbsoluteError(name="mae")
        self.loss_fn = keras.losses.MeanSquaredError()

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            y_pred = self(x, training=True)
            loss = self.loss_fn(y, y_pred)
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply(gradients, self.trainable_variables)
        self.loss_tracker.update_state(loss)
        self.mae_metric.update_state(y, y_pred)
        return {"loss": self.loss_tracker.result(), "mae": self.mae_metric.result()}

    @property
    def metrics(self):
        return [self.loss_tracker, self.mae_metric]


rng = np.random.default_rng(59)
x = rng.random((330, 16)).astype("float32")
y = (x[:, :3] ** 2).sum(axis=1, keepdims=True)
dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(32)

inputs = keras.Input(shape=(16,))
outputs = keras.layers.Dense(1)(keras.layers.Dense(12, activation="relu")(inputs))
model = CustomModel(inputs, outputs)
model.compile(optimizer=keras.optimizers.SGD(0.05, momentum=0.9, nesterov=True, global_clipnorm=1.0))
history = model.fit(dataset, epochs=4)
