"""Writes Keras' own files under several workers: by callbacks while it trains, and on the chief at the end."""

import faulthandler
import json
import os
import sys
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

import dtj

faulthandler.dump_traceback_later(60, exit=True)  # where one waits for the others
session = dtj.init(seed=1)
folder = Path(sys.argv[1])
x = np.random.default_rng(0).normal(size=(96, 8)).astype("float32")
layers = [keras.layers.Dense(8), keras.layers.BatchNormalization(), keras.layers.Dropout(0.1), keras.layers.Dense(1)]
model = keras.Sequential([keras.Input((8,)), *layers])
model.compile("adam", "mse", metrics=["mae", keras.metrics.RootMeanSquaredError()])
checkpoint = keras.callbacks.ModelCheckpoint
dtj.fit(
    model,
    dtj.data.Pipeline(dtj.data.numpy(x, x[:, :1])),
    epochs=2,
    batch_size=24,
    callbacks=[
        checkpoint(folder / "epoch.keras"),
        checkpoint(folder / "best.weights.h5", monitor="loss", save_best_only=True, save_weights_only=True),
        checkpoint(folder / "batch.keras", save_freq=3),
    ],
)
told: dict[str, float] = {}
if session.is_chief:
    keras.backend.clear_session()
    model.save(folder / "end.keras")
    model.save_weights(folder / "end.weights.h5")
    tf.distribute.experimental_set_strategy(None)
    for file in ("epoch.keras", "end.keras"):
        loaded = keras.models.load_model(folder / file).get_weights()
        told[file] = max(float(np.abs(a - b).max()) for a, b in zip(loaded, model.get_weights(), strict=True))
sys.stdout.write("TEST " + json.dumps(told) + "\n")
sys.stdout.flush()
os._exit(0)
