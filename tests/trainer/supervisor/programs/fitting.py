# ruff: noqa: T201 - the test reads what is printed
"""Trains a model with dropout by dtj.fit. Arguments: steps; a file: slowly as long as it is there."""

import os
import sys
import time
from pathlib import Path

import keras
import numpy as np

import dtj

print("SAY begin", os.getpid(), flush=True)
dtj.init(seed=1)
x = np.random.default_rng(0).normal(size=(240, 8)).astype("float32")
model = keras.Sequential(
    [keras.Input((8,)), keras.layers.Dense(16, "relu"), keras.layers.Dropout(0.2), keras.layers.Dense(1)]
)
model.compile(keras.optimizers.Adam(1e-2), "mse")


class Slowly(keras.callbacks.Callback):
    def on_train_batch_end(self, batch: int, logs: object = None) -> None:
        if Path(sys.argv[2]).exists():
            time.sleep(0.03)


result = dtj.fit(
    model,
    dtj.data.Pipeline(dtj.data.numpy(x, x[:, :3].sum(1, keepdims=True))),
    steps=int(sys.argv[1]),
    batch_size=24,
    callbacks=[Slowly()],
)
print("SAY weights", *(float(value) for weights in model.get_weights() for value in weights.ravel()), flush=True)
