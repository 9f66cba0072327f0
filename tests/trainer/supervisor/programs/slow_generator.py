"""Trains on a generator that takes 50 ms for a batch."""

import time
from collections.abc import Iterator

import keras
import numpy as np

import dtj


def batches() -> Iterator[tuple[np.ndarray, np.ndarray]]:
    while True:
        time.sleep(0.05)
        yield np.ones((8, 4), "float32"), np.ones((8, 1), "float32")


dtj.init()
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
model.compile("adam", "mse")
dtj.fit(model, batches(), steps_per_epoch=200)
