"""Lazy loading of modules that TensorFlow and Keras import but few programs use.

`import tensorflow` builds the tree of its public names three times (for itself, compat.v1 and compat.v2) and runs a
third of its modules for it; a program uses few of them. Keras imports scikit-learn, with SciPy, and matplotlib wherever
they are installed: with them an import takes half as long again.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from threading import RLock
from types import ModuleType
from typing import Any, Final

SELDOM_USED: Final = (
    "keras.src.visualization",
    "keras.visualization",
    "keras.wrappers",
    "tensorflow._api.v2.",
)
"""How the names of such modules begin."""
EXPORTED: Final = frozenset(
    {
        "__all__",
        "__compiler_version__",
        "__cxx11_abi_flag__",
        "__cxx_version__",
        "__git_version__",
        "__internal__",
        "__monolithic_build__",
        "__operators__",
        "__version__",
    }
)
"""Names of this form that modules have of their own. Others (`__wrapped__`) are what tools ask every module for."""
_LOADING: Final = RLock()
"""One for all. No thread waits for it while it imports what another loads: modules of `tensorflow.python` do not use
TensorFlow's public names."""


def defer(beginnings: tuple[str, ...] = SELDOM_USED) -> None:
    """Load modules with these prefixes at the first attribute access, not at import."""
    sys.meta_path.insert(0, _Finder(beginnings))


def demand(module: ModuleType) -> None:
    """Load a deferred module now; do nothing for others."""
    with _LOADING:
        if isinstance(module, _Deferred) and module.__spec__ and isinstance(module.__spec__.loader, _Later):
            _load(module, module.__spec__, module.__spec__.loader)


class _Deferred(ModuleType):
    """A module that is not loaded yet."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name not in EXPORTED:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        demand(self)
        return ModuleType.__getattribute__(self, name)

    def __dir__(self) -> list[str]:
        demand(self)
        return list(ModuleType.__dir__(self))


def _load(module: ModuleType, spec: ModuleSpec, later: _Later) -> None:
    spec.loader = module.__loader__ = later.loader
    try:
        later.loader.exec_module(module)
    except BaseException:
        spec.loader = module.__loader__ = later
        raise
    module.__class__ = ModuleType


class _Later(Loader):
    """A loader that creates the module and calls the real loader later."""

    def __init__(self, loader: Loader) -> None:
        self.loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Deferred(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: the module is loaded at the first attribute access."""


class _Finder(MetaPathFinder):
    def __init__(self, beginnings: tuple[str, ...]) -> None:
        self._beginnings = beginnings

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, path, target) if fullname.startswith(self._beginnings) else None
        if spec is not None and spec.loader is not None:
            spec.loader = _Later(spec.loader)
        return spec
