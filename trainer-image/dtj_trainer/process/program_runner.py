"""Runs a script or module as `python PROGRAM ARGS` or `python -m MODULE ARGS` would."""

from __future__ import annotations

import importlib.util
import runpy
import sys
import types
from collections.abc import Sequence
from pathlib import Path

from dtj_trainer.errors import PreflightFailed


def run_program(name: str, arguments: Sequence[str], *, is_module: bool) -> None:
    """Run the program to its end; its exceptions are raised here.

    Raises PreflightFailed if there is no such module.
    """
    sys.argv = [name, *arguments]
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    if is_module:
        _run_module(name)
        return
    if Path(name).is_dir():
        runpy.run_path(name, run_name="__main__")
        return
    sys.path[0] = str(Path(name).resolve().parent)
    main.__file__ = name
    main.__dict__["__builtins__"] = __builtins__
    main.__dict__["__cached__"] = None
    source = Path(name).read_bytes()
    exec(compile(source, name, "exec"), main.__dict__)  # noqa: S102 - running it is the task


def _run_module(name: str) -> None:
    sys.path[0] = str(Path.cwd())
    try:
        found = importlib.util.find_spec(name)
    except ModuleNotFoundError:
        found = None
    if found is None:
        raise PreflightFailed(f"there is no module {name!r} to run; check its name")
    runpy._run_module_as_main(name, alter_argv=True)  # type: ignore[attr-defined]  # noqa: SLF001
