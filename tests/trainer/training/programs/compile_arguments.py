"""Trains with arguments of `compile` and of the optimizer; tells how far the weights are from `model.fit`'s."""

import json
import os
import sys
from collections.abc import Callable
from typing import Any

import keras
import numpy as np

import dtj

session = dtj.init()
rng = np.random.default_rng(0)
x = rng.normal(size=(103, 8)).astype("float32")
y = x[:, :3].sum(1, keepdims=True)
told: dict[str, Any] = {}


def compiled(**arguments: Any) -> keras.Model:
    keras.utils.set_random_seed(3)
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(8, activation="tanh"), keras.layers.Dense(1)])
    model.compile(**{"optimizer": keras.optimizers.Adam(0.01), "loss": "mse", **arguments})
    return model


class Checking(keras.layers.Layer):
    """Needs the values of its input."""

    def call(self, given: Any) -> Any:
        assert np.isfinite(given.numpy()).all()
        return given


class Converting(keras.layers.Layer):
    """Makes an array of its input, which Sequential tries without values and then leaves for later."""

    def call(self, given: Any) -> Any:
        assert np.isfinite(keras.ops.convert_to_numpy(given)).all()
        return given


class Debugged(keras.Model):
    """Makes its variables when it is called, and looks at its values there and in its own step."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = [keras.layers.Dense(8, activation="tanh"), Checking(), keras.layers.Dense(1)]

    def call(self, given: Any) -> Any:
        for part in self.parts:
            given = part(given)
        return given


class DebuggedStep(Debugged):
    def train_step(self, data: Any) -> Any:
        assert np.isfinite(data[1].numpy()).all()
        return super().train_step(data)


def debugged(kind: type[keras.Model] = Debugged) -> keras.Model:
    keras.utils.set_random_seed(3)
    model = kind()
    model.compile(keras.optimizers.Adam(0.01), "mse", metrics=["mae"], run_eagerly=True)
    return model


def in_a_row() -> keras.Model:
    """Return a Sequential model that is built, and whose layer without weights is not."""
    keras.utils.set_random_seed(3)
    parts = [keras.layers.Dense(8, activation="tanh"), Converting(), keras.layers.Dense(1)]
    model = keras.Sequential([keras.Input((8,)), *parts])
    model.compile(keras.optimizers.Adam(0.01), "mse", metrics=["mae"], run_eagerly=True)
    return model


CASES: dict[str, Callable[[], keras.Model]] = {
    "nothing": compiled,
    "jit_compile": lambda: compiled(jit_compile=True),
    "run_eagerly": lambda: compiled(run_eagerly=True),
    "run_eagerly_values": debugged,
    "run_eagerly_in_a_row": in_a_row,
    "run_eagerly_step": lambda: debugged(DebuggedStep),
    "averages_put_in": lambda: compiled(
        optimizer=keras.optimizers.SGD(0.01, gradient_accumulation_steps=2, use_ema=True, ema_overwrite_frequency=3)
    ),
    "scaled": lambda: compiled(
        optimizer=keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.01, gradient_accumulation_steps=2))
    ),
}
for name, make in CASES.items():
    if name in {"averages_put_in", "scaled"} and session.replicas == 1:
        continue
    try:
        options: dict[str, Any] = {
            "epochs": 2,
            "batch_size": 24,
            "shuffle": False,
            "verbose": 0,
            "validation_data": (x[:30], y[:30]),
        }
        model = make()
        history = dtj.fit(model, x, y, **options)
        again = compiled(**({"metrics": ["mae"]} if name.startswith("run_eagerly_") else {}))
        expected = again.fit(x, y, **options)
        found, wanted = (
            np.concatenate([np.ravel(held) for held in (*each.get_weights(), *told_of.history.values())])
            for each, told_of in ((model, history), (again, expected))
        )
        told[name] = float(np.linalg.norm(found - wanted) / np.linalg.norm(wanted))
    except Exception as refusal:  # noqa: BLE001 - told to the test
        told[name] = str(refusal)
sys.stdout.write("TEST " + json.dumps(told) + "\n")
sys.stdout.flush()
os._exit(0)
