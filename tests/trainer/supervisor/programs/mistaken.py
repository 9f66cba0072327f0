"""Trains a model with one mistake, named by the first argument."""

import sys

import keras
import numpy as np

import dtj

MISTAKE, *PLACE = sys.argv[1:]
dtj.init()
x = np.ones((48, 8), "float32")
y = np.ones((48, 1), "float32")
if MISTAKE == "nan":
    y[7] = np.nan
width = 1_000_000 if MISTAKE == "disk" else 1
model = keras.Sequential(
    [keras.Input((9 if MISTAKE == "shape" else 8,)), keras.layers.Dense(width), keras.layers.Dense(1)]
)
model.compile("amad" if MISTAKE == "optimizer" else "sgd", "mse")
source = dtj.data.parquet(PLACE[0]) if MISTAKE == "hdfs" else dtj.data.numpy(x, y)
dtj.fit(model, dtj.data.Pipeline(source), steps=10, batch_size=24)
