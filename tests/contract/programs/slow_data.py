"""Trains on data that comes slowly. Argument: a file: as long as it is there, no process gets much of it."""

import itertools
import sys
import time
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

import dtj

HANGS = Path(sys.argv[1])
numbers = itertools.count()


def slow(row: np.ndarray) -> np.ndarray:
    while HANGS.exists() and next(numbers) > 200:
        time.sleep(0.1)
    time.sleep(0.003)
    return row


def load(x: tf.Tensor, y: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    return tf.ensure_shape(tf.numpy_function(slow, [x], tf.float32), x.shape), y


dtj.init()
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
model.compile("adam", "mse")
rows = np.ones((64, 4), "float32")
dtj.fit(model, dtj.data.Pipeline(dtj.data.numpy(rows, rows[:, :1]), map=load), batch_size=8, epochs=1_000_000)
