"""What an import of TensorFlow needs, fetched by two threads: one loads its library, one reads the code of the modules.

The library takes 0.4 s, in which Python has nothing to do; to find and read fifteen hundred modules, and to import what
TensorFlow needs of Python's own, takes nearly as long. Which ones these will be is known from an import before:
`python -m dtj_trainer.supervisor.ahead`, run when an image is built, writes a list beside this file, of paths to read
and names to import. Without it modules are read as they are imported.
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
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType
from typing import Final

from dtj_trainer.supervisor.deferral import SELDOM_USED

LIST: Final = Path(__file__).with_name("imported.txt")
PLACE: Final = Path(sysconfig.get_path("purelib"))
"""What the list's paths begin from."""
SOURCE, LIBRARY = ".py", ".so"
OWN: Final = Path(sysconfig.get_path("stdlib"))
"""Where Python's own modules lie."""


@contextmanager
def fetched_ahead(*more: str) -> Iterator[None]:
    """Herein modules of the list are imported from code that has been read already, or have been imported; so have
    `more`, which may need nothing of TensorFlow's.
    """
    try:
        lines = LIST.read_text(encoding="utf-8").splitlines()
    except OSError:
        import_present(more)
        yield
        return
    # Libraries first: while TensorFlow's is loaded, no other one can be.
    import_present(line.removesuffix(LIBRARY) for line in lines if line.endswith(LIBRARY))
    loading = threading.Thread(target=_load, args=(PLACE / "tensorflow",), name="dtj-load")
    loading.start()
    finder = _Finder([line for line in lines if line.endswith(SOURCE)])
    import_present((*more, *(line for line in lines if not line.endswith((SOURCE, LIBRARY)))))
    loading.join()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


def import_present(names: Iterable[str]) -> None:
    """Import these; one that is missing is left to whoever needs it to miss."""
    for name in names:
        with suppress(ImportError):
            importlib.import_module(name)


def _load(folder: Path) -> None:
    """Load TensorFlow's libraries with Python's lock let go; one that cannot be loaded is left to the import."""
    dlopen = ctypes.CDLL(None).dlopen
    dlopen.argtypes, dlopen.restype = [ctypes.c_char_p, ctypes.c_int], ctypes.c_void_p
    for library in sorted(folder.glob("libtensorflow_*.so.*"), reverse=True):  # cc needs framework
        dlopen(os.fsencode(library), os.RTLD_NOW)


class _Read(SourceFileLoader):
    """Has read a module's code; asked again, or for what it could not read, it does as any other loader."""

    code: CodeType | None = None

    def read(self) -> None:
        with suppress(ImportError, OSError, SyntaxError):
            self.code = super().get_code(self.name)

    def get_code(self, fullname: str) -> CodeType | None:
        code, self.code = self.code, None
        return code or super().get_code(fullname)


class _Finder(MetaPathFinder):
    """Finds the modules of the list where an import would look for them first, and nowhere else."""

    def __init__(self, paths: Sequence[str]) -> None:
        self._loaders: dict[str, _Read] = {}
        for path in paths:
            name = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
            loader = self._loaders[name] = _Read(name, f"{PLACE}/{path}")
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


def imported() -> list[str]:
    """What this process has imported, in its order: paths of the modules inside packages; names of Python's own, with
    `.so` behind those that are libraries.
    """
    found = []
    for name, module in list(sys.modules.items()):
        path = Path(getattr(module, "__file__", None) or "")
        if name.startswith(("dtj_trainer.", *SELDOM_USED)):
            continue
        if path.is_relative_to(PLACE):
            if "." in name and path.suffix == SOURCE:
                found.append(path.relative_to(PLACE).as_posix())
        elif path.is_relative_to(OWN):
            found.append(name if path.suffix == SOURCE else name + LIBRARY)
    return found


def main() -> None:
    """Write the list."""
    from dtj_trainer.supervisor import zygote

    zygote.preload()
    LIST.write_text("".join(f"{line}\n" for line in imported()), encoding="utf-8")


if __name__ == "__main__":
    main()
