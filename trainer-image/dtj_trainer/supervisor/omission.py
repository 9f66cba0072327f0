"""Imports that TensorFlow and Keras make for what few programs use, made when that is used.

`tf.nn` and `tf.train` take a dozen names from the Keras of TensorFlow's own tree, which needs SciPy: two hundred
modules. Keras takes `requests`, `rich` and `h5py` for a callback, for tables of a model and for files of one;
`tf.distribute` takes `requests` to ask Google's cloud whether a machine is about to be taken away.
"""

from __future__ import annotations

import builtins
import importlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Final

OMITTED: Final = {
    "keras.src.callbacks.remote_monitor": "requests",
    "keras.src.legacy.saving.legacy_h5_format": "h5py",
    "keras.src.saving.file_editor": "rich",
    "keras.src.utils.summary_utils": "rich",
    "tensorflow._api.v2.nn": "tensorflow.python.keras",
    "tensorflow.python.distribute.failure_handling.failure_handling_util": "requests",
    "tensorflow.python.ops.special_math_ops": "opt_einsum",
    "tensorflow.python.training.learning_rate_decay": "tensorflow.python.keras",
    "tensorflow.python.training.training": "tensorflow.python.keras",  # all names of the one before
    "wrapt.synchronization": "asyncio",
}
"""By the module that imports it: a package, with all that is in it."""


@contextmanager
def less_imported(omitted: Mapping[str, str] = OMITTED) -> Iterator[None]:
    """Herein these modules do not import these packages. What they name of them is found when it is looked for."""
    importing = builtins.__import__
    packages: dict[tuple[str, str], _Package] = {}

    def omitting(
        name: str,
        globals: Mapping[str, Any] | None = None,  # noqa: A002 - as it is called
        locals: Mapping[str, Any] | None = None,  # noqa: A002
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> Any:
        importer = str(globals.get("__name__")) if globals else ""
        package = omitted.get(importer)
        if package is None or level or not f"{name}.".startswith(f"{package}.") or find_spec(package) is None:
            return importing(name, globals, locals, fromlist, level)
        if fromlist:
            return _Source(name)
        known = packages.setdefault((importer, package), _Package(package))
        known.modules.append(name)
        return known

    builtins.__import__ = omitting
    try:
        yield
    finally:
        builtins.__import__ = importing
        for importer in omitted:
            if importer in sys.modules:
                _let_find(sys.modules[importer])


class _Package(ModuleType):
    """Stands for a package in the module that says `import package`, and imports it when something in it is used."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.modules: list[str] = []

    def __getattr__(self, name: str) -> Any:
        for module in self.modules:
            importlib.import_module(module)
        return getattr(sys.modules[self.__name__], name)


class _Source:
    """Stands for a module in `from module import name`."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> _Name:
        return _Name(lambda: _found(self._module, name))


class _Name:
    """Stands for what is called so in a module, and its attributes for what that has."""

    def __init__(self, find: Callable[[], Any]) -> None:
        self.find = find

    def __getattr__(self, name: str) -> _Name:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Name(lambda: getattr(self.find(), name))


def _found(module: str, name: str) -> Any:
    """What `from module import name` gives."""
    try:
        return getattr(importlib.import_module(module), name)
    except AttributeError:
        return importlib.import_module(f"{module}.{name}")


def _let_find(importer: ModuleType) -> None:
    """Replace the names that stand for something by a look-up that finds it (PEP 562)."""
    there = vars(importer)
    names = {name: value for name, value in there.items() if isinstance(value, _Name)}
    if not names:
        return
    for name in names:
        del there[name]

    def get(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {importer.__name__!r} has no attribute {name!r}")
        there[name] = found = names[name].find()
        return found

    there["__getattr__"] = get
    there["__dir__"] = lambda: sorted({*there, *names})
