"""Structured: adapted Normalization, a long run that EarlyStopping ends and whose best weights return."""

import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(29)

rng = np.random.default_rng(31)
features = rng.normal([5, 190, 100, 2900, 15], [2, 90, 35, 800, 3], size=(250, 5)).astype("float32")
labels = (46 - 0.006 * features[:, 3] - 0.05 * features[:, 2] + rng.normal(0, 2, size=250)).astype("float32")

normalizer = layers.Normalization(axis=-1)
normalizer.adapt(features)
model = keras.Sequential(
    [normalizer, layers.Dense(16, activation="relu"), layers.Dense(16, activation="relu"), layers.Dense(1)]
)
model.compile(loss="mean_absolute_error", optimizer=keras.optimizers.Adam(0.02))
history = model.fit(
    features,
    labels,
    validation_split=0.2,
    verbose=0,
    epochs=40,
    shuffle=False,
    callbacks=[keras.callbacks.EarlyStopping(patience=3, min_delta=0.05, restore_best_weights=True)],
)
print("epochs:", len(history.epoch), "best:", min(history.history["val_loss"]))
scores = model.evaluate(features[200:], labels[200:], verbose=0)
