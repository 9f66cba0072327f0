"""The public package: distributed training of Keras models and of your own training steps.

    import dtj

    dtj.init()
    dtj.fit(model, dataset, epochs=3)

Importing it imports only the standard library; each name is loaded when it is first used. `dtj_trainer`, where the
names are defined, is not public.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dtj import data, errors
    from dtj_trainer import Session, TrainContext, __version__, all_reduce, evaluate, fit, init, predict, session, train

__all__ = [
    "Session",
    "TrainContext",
    "__version__",
    "all_reduce",
    "data",
    "errors",
    "evaluate",
    "fit",
    "init",
    "predict",
    "session",
    "train",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'dtj' has no attribute {name!r}")
    if name in {"data", "errors"}:
        return importlib.import_module(f"dtj.{name}")
    value = globals()[name] = getattr(importlib.import_module("dtj_trainer"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
