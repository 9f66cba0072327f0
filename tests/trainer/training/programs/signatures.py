"""Tells the arguments of Keras' methods and of ours, and what becomes of those of `compile` that may be refused."""

import inspect
import json
import os
import sys
from collections.abc import Callable
from typing import Any

import keras
import numpy as np

import dtj
import dtj.errors

dtj.init()
x = np.random.default_rng(0).normal(size=(24, 4)).astype("float32")
y = x[:, :1]


def arguments(function: Callable[..., Any]) -> dict[str, str]:
    parameters = list(inspect.signature(function).parameters.values())[1:]  # without self, or the model
    return {each.name: repr(each.default) for each in parameters}


def compiled(**settings: Any) -> str | list[float]:
    """The losses of a training with these arguments of `compile`, or why it is refused."""
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model.compile(**{"optimizer": "sgd", "loss": "mse", **settings})
    try:
        losses: list[float] = dtj.fit(model, x, y, epochs=3, shuffle=False, verbose=0).history["loss"]
    except dtj.errors.TrainerError as refusal:
        return str(refusal)
    return losses


told = {
    "keras": {name: arguments(getattr(keras.Model, name)) for name in ("fit", "evaluate", "predict", "compile")},
    "dtj": {name: arguments(getattr(dtj, name)) for name in ("fit", "evaluate", "predict")},
    "plain": compiled(),
    "jit_compile": compiled(jit_compile=True),
    "run_eagerly": compiled(run_eagerly=True),
    "gradient_accumulation_steps": compiled(optimizer=keras.optimizers.SGD(gradient_accumulation_steps=2)),
}
sys.stdout.write("TEST " + json.dumps(told) + "\n")
sys.stdout.flush()
os._exit(0)
