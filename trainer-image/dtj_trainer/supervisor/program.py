"""The program that `dtj-run` supervises: a script, or a module."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dtj_trainer.cluster.accelerators import tpu_there
from dtj_trainer.cluster.task_mode import TaskMode
from dtj_trainer.errors import PreflightFailed
from dtj_trainer.ipc.messages import StartOrder

_ASSIGNED: Final = re.compile(
    r"""(?:environ\s*(?:\[|\.\s*setdefault\s*\(|\.\s*update\s*\(.*?)|putenv\s*\()\s*
        ["']?(?P<name>(?:TF|XLA|KERAS|CUDA)_[A-Z0-9_]+)""",
    re.VERBOSE | re.DOTALL,
)
_LATE: Final = frozenset({"TF_CONFIG", "TF_CPP_MIN_LOG_LEVEL", "TF_CPP_MAX_VLOG_LEVEL", "CUDA_VISIBLE_DEVICES"})
"""Read when the first op or device is made, or of no effect on results: no reason to import again."""
_IMPORTS_DTJ: Final = re.compile(r"^\s*(?:import|from)\s+dtj(?:_trainer)?\b", re.MULTILINE)

_OWN_STRATEGY: Final = re.compile(r"^[^#\n]*?\b(?P<name>tf\.distribute\.(?:\w+\.)?\w+Strategy)\s*\(", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Program:
    """A program with its arguments."""

    name: str
    """Path of a script, or name of a module."""
    arguments: tuple[str, ...] = ()
    is_module: bool = False

    @classmethod
    def of(cls, words: Sequence[str]) -> Program | None:
        """Return the program of the words behind the flags; None when there are none."""
        if not words:
            return None
        if words[0] == "-m":
            if len(words) == 1:
                raise PreflightFailed("-m needs the name of a module; see dtj-run --help")
            return cls(words[1], tuple(words[2:]), is_module=True)
        return cls(words[0], tuple(words[1:]))

    def check(self) -> None:
        """Raise PreflightFailed when the script cannot be read.

        A module is looked up by the process that runs it.
        """
        if self.is_module:
            if self.file() is None and "." not in self.name:
                raise PreflightFailed(f"there is no module {self.name!r} to run; check its name")
            return
        path = Path(self.name)
        if not path.exists():
            hint = "give the script itself, without an interpreter" if _interpreter(self.name) else "check its path"
            raise PreflightFailed(f"there is no program {self.name!r} in {Path.cwd()}; {hint}")
        if path.is_file() and not os.access(path, os.R_OK):
            raise PreflightFailed(f"the program {self.name!r} cannot be read; check its permissions")

    def file(self) -> Path | None:
        """Return the source file of the program, found without importing anything."""
        if not self.is_module:
            path = Path(self.name)
            return path / "__main__.py" if path.is_dir() else path
        parts = self.name.split(".")
        for folder in [Path.cwd(), *map(Path, sys.path)]:
            package = folder.joinpath(*parts)
            for candidate in (package.with_suffix(".py"), package / "__main__.py"):
                if candidate.is_file():
                    return candidate
        return None

    def text(self) -> str:
        """Return the program's source; empty when it is not readable text."""
        path = self.file()
        try:
            return path.read_text(encoding="utf-8", errors="replace") if path else ""
        except OSError:
            return ""


def _interpreter(name: str) -> bool:
    return bool(re.fullmatch(r"python[0-9.]*", name))


def variables_set_for_import(text: str) -> frozenset[str]:
    """Return the variables in the program's text that TensorFlow reads while it is imported."""
    return frozenset(match["name"] for match in _ASSIGNED.finditer(text)) - _LATE


def uses_dtj(text: str) -> bool:
    """Return whether the program imports dtj by itself, under this name or that of the package inside."""
    return bool(_IMPORTS_DTJ.search(text))


def own_strategy(order: StartOrder) -> str:
    """Return what a program that imports dtj builds itself beside the job's strategy, with its line; empty if nothing.

    TensorFlow crashes where that is for one process and the job has several.
    """
    if not (order.in_cluster and order.uses_dtj):
        return ""
    text = Program(order.program, is_module=order.is_module).text()
    found = _OWN_STRATEGY.search(text)
    if found is None:
        return ""
    return f"{Path(order.program).name}, line {text.count(chr(10), 0, found.start('name')) + 1}: {found['name']}()"


def may_preload(choice: str, program: Program | None, strategy: str, environment: Mapping[str, str]) -> bool:
    """Return whether TensorFlow may be imported ahead of the program.

    Not with a TPU, whose chips it would claim, and not for Keras on another back end, whose threads do not survive a
    fork.
    """
    if environment.get("KERAS_BACKEND", "tensorflow") != "tensorflow":
        return False
    if choice == "off" or strategy == "TPU" or environment.get("TPU_NAME") or tpu_there(environment):
        return False
    return program is None or not variables_set_for_import(program.text())


def start_order(program: Program | None, mode: TaskMode, *, has_peers: bool) -> StartOrder:
    """Return what the training process of a task is to do."""
    return StartOrder(
        serves=mode is TaskMode.SERVER,
        in_cluster=mode is TaskMode.COLLECTIVE,
        has_peers=has_peers,
        uses_dtj=program is not None and uses_dtj(program.text()),
        program=program.name if program else "",
        arguments=program.arguments if program else (),
        is_module=program.is_module if program else False,
    )
