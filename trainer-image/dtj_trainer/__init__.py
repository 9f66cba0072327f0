"""Training under every tf.distribute strategy with one loop.

    import dtj_trainer as dtj
    dtj.init()
    dtj.fit(model, dataset, epochs=3)

Importing this imports no TensorFlow: the supervisor lives in the same package.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dtj_trainer import data
    from dtj_trainer.loop.fit import fit
    from dtj_trainer.loop.result import Result
    from dtj_trainer.session import Session, init

__version__ = "0.1.0"
__all__ = ["Result", "Session", "data", "fit", "init"]

_PLACES = {
    "Result": "dtj_trainer.loop.result",
    "Session": "dtj_trainer.session",
    "fit": "dtj_trainer.loop.fit",
    "init": "dtj_trainer.session",
}


def __getattr__(name: str) -> Any:
    import importlib

    if name in _PLACES:
        value = getattr(importlib.import_module(_PLACES[name]), name)
    elif name == "data":
        value = importlib.import_module("dtj_trainer.data")
    else:
        raise AttributeError(f"module 'dtj_trainer' has no attribute {name!r}")
    globals()[name] = value
    return value
