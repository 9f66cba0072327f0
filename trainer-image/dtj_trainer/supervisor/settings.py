"""The settings of `dtj-run`: flags, and the same as DTJ_… variables; a flag wins.

Times are seconds.
"""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from pathlib import Path
from typing import Final, NoReturn

from dtj_trainer.cluster.tf_config import LAST_PORT
from dtj_trainer.contract import PORT
from dtj_trainer.errors import PreflightFailed
from dtj_trainer.supervisor.program import Program

USAGE: Final = "dtj-run [flags] [--] PROGRAM [ARGS…]   or   dtj-run [flags] -m MODULE [ARGS…]"
EPILOG: Final = (
    "Each flag is an environment variable too (DTJ_STALL_SECONDS for --stall-seconds); the flag wins. "
    "Inside a running pod, `dtj-run checkpoint` and `dtj-run profile [--steps N]` ask its supervisor for one."
)


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of `dtj-run`."""

    restarts: int = 10
    """Restarts in place before giving up."""
    stall_seconds: float | None = None
    """None: 10 x the median step + 30."""
    save_seconds: float = 900.0
    start_seconds: float = 900.0
    heartbeat_seconds: float = 3.0
    port: int = PORT
    memory_growth: bool = False
    gpu_memory_limit_mb: int | None = None
    logical_devices: int | None = None
    threads: int | None = None
    """None: from the pod's CPU limit."""
    profile_steps: str | None = None
    preload: str = "auto"
    standby: str = "auto"
    gpus: int | None = None
    deterministic: bool = False
    grace_seconds: float | None = None
    """After SIGTERM; None: 25 for a program that uses us, 5 for one that does not."""
    termination_log: Path | None = None
    """None: /dev/termination-log if it exists."""


@dataclass(frozen=True, slots=True)
class Invocation:
    """A parsed command line."""

    settings: Settings
    program: Program | None
    """None: nothing to run, so the role has to be one that serves."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise PreflightFailed(f"{message}; see dtj-run --help")


def _number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value) or value < 0:
        raise ValueError(text)
    return value


def _count(text: str) -> int:
    value = int(text)
    if value < 0:
        raise ValueError(text)
    return value


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise ValueError(text)
    return value


def _port(text: str) -> int:
    value = int(text)
    if not 0 < value <= LAST_PORT:
        raise ValueError(text)
    return value


def _flag(text: str) -> bool:
    if text.lower() in {"1", "true", "yes", "on"}:
        return True
    if text.lower() in {"0", "false", "no", "off", ""}:
        return False
    raise ValueError(text)


def _steps(text: str) -> str:
    first, _, last = text.partition(":")
    if int(first) < 0 or int(last) <= int(first):
        raise ValueError(text)
    return text


def _auto(text: str) -> str:
    if text not in {"auto", "off"}:
        raise ValueError(text)
    return text


_READERS: Final[dict[str, tuple[Callable[[str], object], str, str]]] = {
    "restarts": (_count, "N", "in-place restarts before giving up (default 10)"),
    "stall_seconds": (_number, "S", "time without a batch that is a stall (default 10 x median + 30)"),
    "save_seconds": (_number, "S", "how long one checkpoint, callback or the export may take (default 900)"),
    "start_seconds": (_number, "S", "how long to wait for the peers (default 900)"),
    "heartbeat_seconds": (_number, "S", "how long a frozen peer may be silent (default 3)"),
    "port": (_port, "PORT", "HTTP port (default 9401)"),
    "memory_growth": (_flag, "", "let GPU memory grow instead of taking all of it"),
    "gpu_memory_limit_mb": (_positive, "MB", "GPU memory cap"),
    "logical_devices": (_positive, "N", "split the device into N logical ones"),
    "threads": (_positive, "N", "threads (default: the pod's CPU limit)"),
    "profile_steps": (_steps, "A:B", "profile the steps after A up to B"),
    "preload": (_auto, "auto|off", "import TensorFlow once, ahead of the program"),
    "standby": (_auto, "auto|off", "keep a second process ready to take over, where there is memory for it"),
    "gpus": (_count, "N", "GPUs that must be there"),
    "deterministic": (_flag, "", "op determinism and pinned threads"),
    "grace_seconds": (_number, "S", "time to save after SIGTERM (default 25, or 5 for a program that does not use us)"),
    "termination_log": (Path, "FILE", "where the termination message goes"),
}


def variable(name: str) -> str:
    """Return the environment variable of a setting."""
    return f"DTJ_{name.upper()}"


def parse(arguments: Sequence[str], environment: Mapping[str, str] = os.environ) -> Invocation:
    """Return settings and program of a command line.

    Raises PreflightFailed for a wrong flag or variable.
    """
    parser = _Parser(prog="dtj-run", usage=USAGE, epilog=EPILOG, allow_abbrev=False)
    for name, (_reader, metavar, text) in _READERS.items():
        option = f"--{name.replace('_', '-')}"
        if metavar:
            parser.add_argument(option, dest=name, metavar=metavar, default=None, help=text)
        else:
            parser.add_argument(option, dest=name, action="store_const", const="true", default=None, help=text)
    own, rest = _split(arguments)
    options = vars(parser.parse_args(own))
    chosen: dict[str, object] = {}
    for field in fields(Settings):
        name = field.name
        reader = _READERS[name][0]
        given, source = options[name], f"--{name.replace('_', '-')}"
        if given is None:
            given, source = environment.get(variable(name)), variable(name)
            if name == "port" and given and "://" in given:
                given = None  # a Kubernetes Service called dtj sets DTJ_PORT=tcp://…
        if given is None or given == "":
            continue
        try:
            chosen[name] = reader(given)
        except ValueError:
            raise PreflightFailed(f"{source} is {given!r}, which is not possible; see dtj-run --help") from None
    return Invocation(Settings(**chosen), Program.of(rest))  # type: ignore[arg-type]


def termination_log(arguments: Sequence[str], environment: Mapping[str, str] = os.environ) -> Path | None:
    """Return where the termination message goes when the rest of the command line is wrong."""
    flag, given = "--termination-log", environment.get(variable("termination_log"))
    words, _ = _split(arguments)
    for word, following in pairwise([*words, ""]):
        if word == flag or word.startswith(f"{flag}="):
            given = following if word == flag else word.partition("=")[2]
    return Path(given) if given else None


def _split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the flags of `dtj-run`, and the rest from the program (or `-m`) on."""
    position = 0
    while position < len(arguments):
        argument = arguments[position]
        if argument == "--":
            return list(arguments[:position]), list(arguments[position + 1 :])
        if argument == "-m" or not argument.startswith("-"):
            break
        name = argument.removeprefix("--").replace("-", "_")
        takes_value = name in _READERS and bool(_READERS[name][1])
        position += 2 if takes_value else 1
    return list(arguments[:position]), list(arguments[position:])
