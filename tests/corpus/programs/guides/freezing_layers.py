"""Guides: a subclassed model with a frozen layer and a shared one; repeated tf.data from a function."""

import keras
import numpy as np
import tensorflow as tf
from keras import layers

keras.utils.set_random_seed(62)


class TwoBranches(keras.Model):
    def __init__(self):
        super().__init__()
        self.projection = layers.Dense(12, trainable=False)
        self.shared = layers.Dense(12, activation="relu")
        self.outputs_layer = layers.Dense(1)

    def call(self, inputs, training=False):
        left, right = inputs
        left, right = self.shared(self.projection(left)), self.shared(self.projection(right))
        return self.outputs_layer(keras.ops.abs(left - right))


rng = np.random.default_rng(65)
left, right = rng.normal(size=(2, 350, 8)).astype("float32")
distance = np.linalg.norm(left - right, axis=1, keepdims=True)


def input_fn(first, last, repeat=False):
    dataset = tf.data.Dataset.from_tensor_slices(((left[first:last], right[first:last]), distance[first:last]))
    return (dataset.repeat() if repeat else dataset).batch(25)


model = TwoBranches()
model.compile(optimizer=keras.optimizers.Adadelta(1.0), loss="mse", jit_compile=False)
history = model.fit(input_fn(0, 300, repeat=True), steps_per_epoch=9, epochs=4, validation_data=input_fn(300, 350))
