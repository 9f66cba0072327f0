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


def kerass(make: Callable[[], keras.Model], data: tf.data.Dataset, **options: Any) -> dict[str, Any]:
    keras.utils.set_random_seed(3)
    model = make()
    history = model.fit(data, epochs=3, verbose=0, **options).history
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


class OwnTraining(keras.Model):
    """Leaves the test step to Keras."""

    def train_step(self, data: Any) -> Any:
        return super().train_step(data)


class OwnTest(keras.Model):
    """Leaves the train step to Keras; its test step tells one thing alone."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.far = keras.metrics.Mean("far")

    def test_step(self, data: Any) -> Any:
        given, wanted = data
        self.far.update_state(keras.ops.abs(wanted - self(given, training=False)))
        return {"far": self.far.result()}


def half_own(kind: type[keras.Model]) -> list[dict[str, Any]]:
    """Train a model with one step of its own by `dtj.fit` and by Keras' own fit, with a validation."""

    def make() -> keras.Model:
        given = keras.Input((8,))
        model = kind(given, keras.layers.Dense(1)(given))
        model.compile(keras.optimizers.SGD(0.05), "mse", metrics=["mae"])
        return model

    data, validation = batches(x, y, size=12), {"validation_data": batches(x[:20], y[:20], size=12)}
    found = [ours(make, data, **validation), kerass(make, data, **validation)]
    for each in found:
        each["metrics"].pop("far", None)  # of a training, which does not use it
    return found


RESULTS = {
    "own train_step": half_own(OwnTraining),
    "own test_step": half_own(OwnTest),
    "uneven": [ours(dense, batches(x, y, size=12)), kerass(dense, batches(x, y, size=12))],
    "accumulated": [ours(adam, batches(ids, far, size=8), accumulate=2), kerass(adam, batches(ids, far, size=16))],
    "clipped": [clipped(1), clipped(2)],
}
sys.stdout.write("TEST " + json.dumps(RESULTS) + "\n")
sys.stdout.flush()
os._exit(0)
