"""Structured: three quantiles by a pinball loss, sample weights in arrays and in the validation data."""

import keras
import numpy as np
from keras import layers, ops

keras.utils.set_random_seed(31)
QUANTILES = np.array([0.1, 0.5, 0.9], "float32")

rng = np.random.default_rng(33)
x = rng.uniform(-2, 2, size=(500, 3)).astype("float32")
y = (np.sin(x[:, :1]) + (0.2 + 0.2 * abs(x[:, :1])) * rng.normal(size=(500, 1))).astype("float32")
weight = np.where(x[:, 1] > 0, 2.0, 0.5).astype("float32")


def pinball(y_true, y_pred):
    error = y_true - y_pred
    return ops.mean(ops.maximum(QUANTILES * error, (QUANTILES - 1) * error), axis=-1)


def coverage(y_true, y_pred):
    inside = ops.logical_and(y_true[:, 0] > y_pred[:, 0], y_true[:, 0] < y_pred[:, 2])
    return ops.cast(inside, "float32")


model = keras.Sequential([keras.Input((3,)), layers.Dense(24, activation="tanh"), layers.Dense(3)])
model.compile(keras.optimizers.Adam(1e-2), loss=pinball, metrics=[coverage], weighted_metrics=[pinball])
history = model.fit(
    x[:407],
    y[:407],
    sample_weight=weight[:407],
    validation_data=(x[407:], y[407:], weight[407:]),
    validation_freq=2,
    batch_size=64,
    epochs=4,
    shuffle=False,
)
