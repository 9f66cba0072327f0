"""Loads TensorFlow's library in a thread while another reads the code of the modules that an import needs.

Loading the library takes 0.4 s, in which Python is idle; to find and read fifteen hundred modules, and to import the
standard library modules of TensorFlow, takes nearly as long. The list of modules comes from an earlier import:
`python -m dtj_trainer.preload.imports`, run when an image is built, writes a list beside this file, of paths to read
and names to import. Without it modules are read as they are imported.

This module is imported before the library is loaded, so it imports little itself.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import sys
import sysconfig
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from types import CodeType, ModuleType
from typing import Final

LIST: Final = os.path.join(os.path.dirname(__file__), "imported.txt")
SITE_PACKAGES: Final = sysconfig.get_path("purelib")
"""What the list's paths begin from."""
SOURCE, LIBRARY = ".py", ".so"
STDLIB: Final = sysconfig.get_path("stdlib")
"""Where Python's own modules lie."""


class ReadAhead:
    """The list of modules, and the thread that loads TensorFlow's library, if there is a list."""

    def __init__(self) -> None:
        self.lines = _lines()
        # Libraries first: while TensorFlow's is loaded, no other one can be.
        import_present(line.removesuffix(LIBRARY) for line in self.lines if line.endswith(LIBRARY))
        self._loading = threading.Thread(target=_load, args=(f"{SITE_PACKAGES}/tensorflow",), name="dtj-load")
        if self.lines:
            self._loading.start()

    @contextmanager
    def fetched(self, *more: str) -> Iterator[None]:
        """Import modules of the list inside from code that is already read; also imports `more`, without TensorFlow."""
        finder = _Finder([line for line in self.lines if line.endswith(SOURCE)])
        import_present((*more, *(line for line in self.lines if not line.endswith((SOURCE, LIBRARY)))))
        if self.lines:
            self._loading.join()
        sys.meta_path.insert(0, finder)
        try:
            yield
        finally:
            sys.meta_path.remove(finder)


def _lines() -> list[str]:
    try:
        with open(LIST, encoding="utf-8") as file:
            return file.read().splitlines()
    except OSError:
        return []


def import_present(names: Iterable[str]) -> None:
    """Import these modules; missing ones are skipped."""
    for name in names:
        with suppress(ImportError):
            importlib.import_module(name)


def _load(folder: str) -> None:
    """Load TensorFlow's libraries while Python continues; errors are left to the import."""
    with suppress(FileNotFoundError):
        libraries = [name for name in os.listdir(folder) if name.startswith("libtensorflow_") and ".so." in name]
        dlopen = ctypes.CDLL(None).dlopen
        dlopen.argtypes, dlopen.restype = [ctypes.c_char_p, ctypes.c_int], ctypes.c_void_p
        for library in sorted(libraries, reverse=True):  # cc needs framework
            dlopen(os.fsencode(f"{folder}/{library}"), os.RTLD_NOW)


class _Read(SourceFileLoader):
    """A loader that has already read a module's code; reloads and unreadable modules use the normal loader."""

    code: CodeType | None = None

    def read(self) -> None:
        with suppress(ImportError, OSError, SyntaxError):
            self.code = super().get_code(self.name)

    def get_code(self, fullname: str) -> CodeType | None:
        code, self.code = self.code, None
        return code or super().get_code(fullname)


class _Finder:
    """A finder for the modules of the list, in the directory that an import would search first."""

    def __init__(self, paths: Sequence[str]) -> None:
        self._loaders: dict[str, _Read] = {}
        for path in paths:
            name = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
            loader = self._loaders[name] = _Read(name, f"{SITE_PACKAGES}/{path}")
            loader.read()

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,  # noqa: ARG002 - part of the protocol
    ) -> ModuleSpec | None:
        loader = self._loaders.pop(fullname, None)
        if loader is None or loader.code is None or not path:
            return None
        first = f"{next(iter(path))}/{fullname.rpartition('.')[2]}"
        if loader.path not in {f"{first}.py", f"{first}/__init__.py"}:
            return None
        return spec_from_file_location(fullname, loader.path, loader=loader)
