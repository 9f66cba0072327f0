"""Guides: two fits of one model with `initial_epoch`, the saved model is loaded in between; `steps_per_execution`."""

import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(58)

rng = np.random.default_rng(61)
x = rng.normal(size=(384, 8)).astype("float32")
y = np.argmax(x[:, :3] + 0.1 * rng.normal(size=(384, 3)), axis=1)

model = keras.Sequential([keras.Input((8,)), layers.Dense(16, activation="relu"), layers.Dense(3)])
model.compile(
    optimizer=keras.optimizers.Adam(3e-3),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
    steps_per_execution=4,
)
first = model.fit(x, y, epochs=2, batch_size=32, shuffle=False, verbose=2)
model.save_weights("after_two.weights.h5")
model.load_weights("after_two.weights.h5")
second = model.fit(x, y, epochs=5, initial_epoch=2, batch_size=32, shuffle=False, verbose=2)
