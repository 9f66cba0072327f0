"""Modules that TensorFlow and Keras import for what few programs use: loaded at their first use instead.

Keras imports scikit-learn, with SciPy, and matplotlib wherever they are installed: with them an import takes half as
long again.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from threading import RLock
from types import ModuleType
from typing import Any, Final

SELDOM_USED: Final = frozenset(
    {
        "keras.src.visualization",
        "keras.visualization",
        "keras.wrappers",
    }
)
_LOADING: Final = RLock()


@contextmanager
def deferred(names: frozenset[str] = SELDOM_USED) -> Iterator[None]:
    """What is imported herein does not run the modules of these names; the first look for something in one does."""
    finder = _Finder(names)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


class _Deferred(ModuleType):
    """Has what the import system gives a module, and nothing of its own yet."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__all__":
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        with _LOADING:
            if self.__spec__ is not None and isinstance(self.__spec__.loader, _Later):
                _load(self, self.__spec__, self.__spec__.loader)
        return ModuleType.__getattribute__(self, name)


def _load(module: ModuleType, spec: ModuleSpec, later: _Later) -> None:
    spec.loader = module.__loader__ = later.loader
    try:
        later.loader.exec_module(module)
    except BaseException:
        spec.loader = module.__loader__ = later
        raise
    module.__class__ = ModuleType


class _Later(Loader):
    """Makes the module and lets the real loader wait."""

    def __init__(self, loader: Loader) -> None:
        self.loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Deferred(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Not yet."""


class _Finder(MetaPathFinder):
    def __init__(self, names: frozenset[str]) -> None:
        self._names = names

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, path, target) if fullname in self._names else None
        if spec is not None and spec.loader is not None:
            spec.loader = _Later(spec.loader)
        return spec
