"""Guides: `train_on_batch` and `test_on_batch` before and after `fit`; a loss that is one number."""

import keras
import numpy as np
from keras import layers, ops

keras.utils.set_random_seed(64)

rng = np.random.default_rng(67)
x = rng.normal(size=(256, 7)).astype("float32")
y = np.sin(x[:, :1]).astype("float32")


def log_cosh(y_true, y_pred):
    return ops.mean(ops.log(ops.cosh(y_pred - y_true)))


model = keras.Sequential([keras.Input((7,)), layers.Dense(16, activation="tanh"), layers.Dense(1)])
model.compile(optimizer=keras.optimizers.SGD(0.1), loss=log_cosh)
for start in range(0, 64, 32):
    print("warm-up loss:", model.train_on_batch(x[start : start + 32], y[start : start + 32]))
history = model.fit(x, y, batch_size=32, epochs=4, shuffle=False)
scores = [float(model.test_on_batch(x[:32], y[:32]))]
