"""The modules that the zygote preloads: TensorFlow, and what every training imports.

`python -m dtj_trainer.preload.imports` writes the list of modules that `read_ahead` reads; it is run when an image is
built.
"""

from __future__ import annotations

import gc
import importlib
import sys
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

from dtj_trainer.preload import read_ahead
from dtj_trainer.preload.lazy_modules import SELDOM_USED, defer, demand
from dtj_trainer.preload.read_ahead import LIBRARY, SOURCE, ReadAhead, import_present

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


def preload(ahead: ReadAhead | None = None) -> None:
    """Import all of them, using what `ahead` has already read."""
    ahead = ahead or ReadAhead()
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


def imported() -> list[str]:
    """Return the modules that this process has imported, in order.

    Paths for modules of packages; names for those of Python itself, with `.so` appended for libraries.
    """
    found = []
    for name, module in list(sys.modules.items()):
        path = getattr(module, "__file__", None) or ""
        if name.startswith(("dtj.", "dtj_trainer.", *SELDOM_USED)):
            continue
        if path.startswith(f"{read_ahead.SITE_PACKAGES}/"):
            if "." in name and path.endswith(SOURCE):
                found.append(path.removeprefix(f"{read_ahead.SITE_PACKAGES}/"))
        elif path.startswith(f"{read_ahead.STDLIB}/"):
            found.append(name if path.endswith(SOURCE) else name + LIBRARY)
    return found


def main() -> None:
    """Import everything and write the list of modules."""
    preload()
    with Path(read_ahead.LIST).open("w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in imported())


if __name__ == "__main__":
    main()
