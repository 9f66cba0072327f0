"""Training under every tf.distribute strategy with one loop; programs use its public face, the package `dtj`.

Importing this imports no TensorFlow: the supervisor lives in the same package.
"""

import importlib
from typing import TYPE_CHECKING, Any

from dtj_trainer.process import excepthook

if TYPE_CHECKING:
    from dtj_trainer import data
    from dtj_trainer.context import TrainContext
    from dtj_trainer.initialization import init
    from dtj_trainer.training.evaluate import evaluate
    from dtj_trainer.training.fit import fit
    from dtj_trainer.training.predict import predict
    from dtj_trainer.training.session import Session, session
    from dtj_trainer.training.train import all_reduce, train

__version__ = "0.1.0"
__all__ = ["Session", "TrainContext", "all_reduce", "data", "evaluate", "fit", "init", "predict", "session", "train"]

_MODULES = {
    "Session": "dtj_trainer.training.session",
    "TrainContext": "dtj_trainer.context",
    "all_reduce": "dtj_trainer.training.train",
    "evaluate": "dtj_trainer.training.evaluate",
    "fit": "dtj_trainer.training.fit",
    "predict": "dtj_trainer.training.predict",
    "init": "dtj_trainer.initialization",
    "session": "dtj_trainer.training.session",
    "train": "dtj_trainer.training.train",
}
"""The module of each public name; imported when the name is first used."""

excepthook.install()


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        value = getattr(importlib.import_module(_MODULES[name]), name)
    elif name == "data":
        value = importlib.import_module("dtj_trainer.data")
    else:
        raise AttributeError(f"module 'dtj_trainer' has no attribute {name!r}")
    globals()[name] = value
    return value
