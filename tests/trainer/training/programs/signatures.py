"""Tells the arguments of Keras' methods, and of ours, with their defaults."""

import inspect
import json
import os
import sys
from collections.abc import Callable
from typing import Any

import keras

import dtj


def arguments(function: Callable[..., Any]) -> dict[str, str]:
    parameters = list(inspect.signature(function).parameters.values())[1:]  # without self, or the model
    return {each.name: repr(each.default) for each in parameters}


told = {
    "keras": {name: arguments(getattr(keras.Model, name)) for name in ("fit", "evaluate", "predict", "compile")},
    "dtj": {name: arguments(getattr(dtj, name)) for name in ("fit", "evaluate", "predict")},
}
sys.stdout.write("TEST " + json.dumps(told) + "\n")
sys.stdout.flush()
os._exit(0)
