"""Data for training: sources, and the Pipeline that turns them into batches.

Like the package, it imports nothing until a name is used.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dtj_trainer.data import Pipeline, csv, numpy, parquet, tfrecord

__all__ = ["Pipeline", "csv", "numpy", "parquet", "tfrecord"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'dtj.data' has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module("dtj_trainer.data"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
