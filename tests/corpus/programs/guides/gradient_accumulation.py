"""Guides: an optimizer with Keras' own gradient accumulation, moving averages of the weights, and weight decay."""

import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(60)

rng = np.random.default_rng(63)
x = rng.normal(size=(384, 10)).astype("float32")
y = (x[:, :2] ** 2).sum(axis=1, keepdims=True).astype("float32")

model = keras.Sequential([keras.Input((10,)), layers.Dense(24, activation="tanh"), layers.Dense(1)])
optimizer = keras.optimizers.Adam(
    5e-3, weight_decay=1e-3, gradient_accumulation_steps=3, use_ema=True, ema_momentum=0.9, ema_overwrite_frequency=None
)
model.compile(optimizer=optimizer, loss="mse")
history = model.fit(x, y, batch_size=32, epochs=4, shuffle=False, callbacks=[keras.callbacks.SwapEMAWeights()])
optimizer.finalize_variable_values(model.trainable_variables)
