"""Trains twice."""

import json
import sys

import keras
import numpy as np

import dtj

dtj.init()
x = np.ones((48, 8), "float32")
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
data = dtj.data.Pipeline(dtj.data.numpy(x, x[:, :1]))
steps = [dtj.fit(model, data, steps=2, batch_size=8, validation_data=(x, x[:, :1])).step]
try:
    steps.append(dtj.fit(model, data, steps=3, batch_size=8, validation_data=(x, x[:, :1])).step)
finally:
    sys.stdout.write("TEST " + json.dumps({"steps": steps}) + "\n")
    sys.stdout.flush()
