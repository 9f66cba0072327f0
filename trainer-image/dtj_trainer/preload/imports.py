"""TensorFlow, and what every training needs beside it, imported for the forks of a process."""

from __future__ import annotations

import gc
import importlib
import sys
from operator import attrgetter
from typing import Any, Final

from dtj_trainer.preload.lazy_modules import defer, demand
from dtj_trainer.preload.read_ahead import Ahead, import_present

PRELOADED: Final = (
    "numpy.random",
    "keras",
    "dtj_trainer.training.fit",
    "dtj_trainer.training.train",
    "dtj_trainer.data",
)
"""Imported ahead, after TensorFlow. What is missing is left to the program to miss."""
PUBLIC: Final = (
    "autograph",
    "config",
    "data",
    "distribute",
    "distribute.experimental",
    "math",
    "nest",
    "nn",
    "random",
    "train",
)
"""What every training uses of TensorFlow's public names: not left to each child to load."""
TWICE: Final = ("distribute", "lite")
"""Public names that packages of TensorFlow have too, which hide them from the moment they are imported."""


def preload(ahead: Ahead | None = None) -> None:
    """Import all that, with what has been begun `ahead`."""
    ahead = ahead or Ahead()
    gc.disable()
    defer()
    with ahead.fetched("dtj_trainer.process.main"):
        _preload_tensorflow()
        import_present(PRELOADED)
    gc.freeze()  # it stays: no fork looks through it for garbage
    gc.enable()


def _preload_tensorflow() -> None:
    tensorflow: Any = importlib.import_module("tensorflow")
    _ = tensorflow.keras  # lazily loaded
    for name in TWICE:
        importlib.import_module(f"tensorflow.{name}")
        setattr(tensorflow, name, sys.modules[f"tensorflow._api.v2.{name}"])
    for name in PUBLIC:
        demand(attrgetter(name)(tensorflow))
