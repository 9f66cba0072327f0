"""Trains the same small models in several ways and prints their weights' sums and losses."""

import json
import os
import sys
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import dtj

dtj.init(seed=1)
WANTED = sys.argv[1:]
RNG = np.random.default_rng(0)
X = RNG.normal(size=(240, 8)).astype("float32")
Y = (X[:, :3].sum(1, keepdims=True) + 0.1).astype("float32")


def model(optimizer: keras.optimizers.Optimizer, *, synchronized: bool = False) -> keras.Model:
    keras.utils.set_random_seed(7)
    norm = [keras.layers.BatchNormalization(synchronized=True)] if synchronized else []
    made = keras.Sequential(
        [keras.Input((8,)), keras.layers.Dense(16, activation="tanh"), *norm, keras.layers.Dense(1)]
    )
    made.compile(optimizer, "mse", metrics=["mae"])
    return made


def pipeline() -> dtj.data.Pipeline:
    return dtj.data.Pipeline(dtj.data.numpy(X, Y))


def told(made: keras.Model, result: Any) -> dict[str, object]:
    weights = [float(value) for w in made.get_weights() for value in np.ravel(w)]
    return {"weights": weights, "metrics": dict(result.metrics), "step": result.step}


CASES = {
    "sgd": lambda m: dtj.fit(m, pipeline(), epochs=2, batch_size=24),
    "adam": lambda m: dtj.fit(m, pipeline(), epochs=2, batch_size=24),
    "clip": lambda m: dtj.fit(m, pipeline(), steps=20, batch_size=24, clip_norm=0.1),
    "keras_clip": lambda m: dtj.fit(m, pipeline(), steps=20, batch_size=24),
    "accumulate": lambda m: dtj.fit(m, pipeline(), steps=10, batch_size=12, accumulate=2),
    "dataset": lambda m: dtj.fit(
        m,
        tf.data.Dataset.from_tensor_slices((X, Y)).batch(24),
        validation_data=tf.data.Dataset.from_tensor_slices((X[:50], Y[:50])).batch(24),
        epochs=2,
    ),
    "norm": lambda m: dtj.fit(m, pipeline(), steps=20, batch_size=24),
}


class Line(tf.Module):
    """A line through the data, for a step of the program's own."""

    def __init__(self) -> None:
        super().__init__()
        self.slope = tf.Variable(tf.zeros([8, 1]))


def descend(line: Line, batches: tuple[tuple[tf.Tensor, tf.Tensor], ...]) -> dict[str, tf.Tensor]:
    """One update by the gradient of two batches."""
    with tf.GradientTape() as tape:
        loss = tf.add_n([tf.reduce_mean(tf.square(x @ line.slope - y)) for x, y in batches]) / len(batches)
    line.slope.assign_sub(0.1 * dtj.all_reduce(tape.gradient(loss, line.slope)))
    return {"loss": loss, "batches": len(batches)}


def own() -> dict[str, object]:
    lines: list[Line] = []

    class Kept(Line):
        def __init__(self) -> None:
            super().__init__()
            lines.append(self)

    in_order = dtj.data.Pipeline(dtj.data.numpy(X, Y), shuffle=0)
    result = dtj.train(descend, state=Kept, data=in_order, steps=10, batch_size=12, accumulate=2)
    return {"weights": lines[0].slope.numpy().ravel().tolist(), "metrics": dict(result.metrics), "step": result.step}


OPTIMIZERS = {
    "sgd": lambda: keras.optimizers.SGD(0.05, momentum=0.9),
    "adam": lambda: keras.optimizers.Adam(0.01),
    "clip": lambda: keras.optimizers.SGD(0.1),
    "keras_clip": lambda: keras.optimizers.SGD(0.1, global_clipnorm=0.1),
    "accumulate": lambda: keras.optimizers.Adam(0.01),
    "dataset": lambda: keras.optimizers.Adam(0.01),
    "norm": lambda: keras.optimizers.SGD(0.01),
}

results = {}
if "own" in WANTED:
    results["own"] = own()
for name, train in CASES.items():
    if name not in WANTED:
        continue
    made = model(OPTIMIZERS[name](), synchronized=name == "norm")
    results[name] = told(made, train(made))
sys.stdout.write("TEST " + json.dumps(results) + "\n")
sys.stdout.flush()
os._exit(0)
