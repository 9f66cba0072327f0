"""Trains small models by dtj.fit and by Keras' own fit, on one device, and prints what became of both."""

import json
import os
import sys
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import dtj

dtj.init(seed=1)
rng = np.random.default_rng(0)
x = rng.normal(size=(40, 8)).astype("float32")
y = x[:, :3].sum(1, keepdims=True)
ids = np.zeros((16, 1), "int32")
"""One entry of an embedding, again and again."""
far = np.full((16, 1), 10, "float32")


def dense() -> keras.Model:
    made = keras.Sequential([keras.Input((8,)), keras.layers.Dense(4, activation="tanh"), keras.layers.Dense(1)])
    made.compile(keras.optimizers.SGD(0.05), "mse", metrics=["mse"])
    return made


def embedding(optimizer: keras.optimizers.Optimizer) -> keras.Model:
    layers = [keras.layers.Embedding(3, 2), keras.layers.Flatten(), keras.layers.Dense(1)]
    made = keras.Sequential([keras.Input((1,), dtype="int32"), *layers])
    made.compile(optimizer, "mse")
    return made


def batches(*parts: Any, size: int) -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices(parts).batch(size)


def flat(model: keras.Model) -> list[float]:
    return [float(value) for w in model.get_weights() for value in np.ravel(w)]


def ours(make: Callable[[], keras.Model], data: tf.data.Dataset, **options: Any) -> dict[str, Any]:
    keras.utils.set_random_seed(3)
    model = make()
    result = dtj.fit(model, data, **{"epochs": 3, **options})
    return {"weights": flat(model), "metrics": dict(result.metrics)}


def kerass(make: Callable[[], keras.Model], data: tf.data.Dataset) -> dict[str, Any]:
    keras.utils.set_random_seed(3)
    model = make()
    history = model.fit(data, epochs=3, verbose=0).history
    return {"weights": flat(model), "metrics": {name: values[-1] for name, values in history.items()}}


def clipped(accumulate: int) -> float:
    """How far one update goes whose gradient is clipped to a tenth."""
    kept: list[keras.Model] = []

    def make() -> keras.Model:
        kept.append(embedding(keras.optimizers.SGD(1.0)))
        return kept[0]

    keras.utils.set_random_seed(3)
    before = np.array(flat(make()))
    after = ours(make, batches(ids, far, size=16 // accumulate), epochs=1, accumulate=accumulate, clip_norm=0.1)
    return float(np.linalg.norm(np.array(after["weights"]) - before))


def adam() -> keras.Model:
    return embedding(keras.optimizers.Adam(0.05))


RESULTS = {
    "uneven": [ours(dense, batches(x, y, size=12)), kerass(dense, batches(x, y, size=12))],
    "accumulated": [ours(adam, batches(ids, far, size=8), accumulate=2), kerass(adam, batches(ids, far, size=16))],
    "clipped": [clipped(1), clipped(2)],
}
sys.stdout.write("TEST " + json.dumps(RESULTS) + "\n")
sys.stdout.flush()
os._exit(0)
