"""A standby in its own process: it prepares everything up to the first step, quietly, and waits to take over.

docs/decisions/041-standby-processes.md. Standard library only.
"""

from __future__ import annotations

import ctypes
import os
import sys
from dataclasses import dataclass
from typing import Final

PR_SET_NAME: Final = 15
CHUNK_BYTES: Final = 65536


@dataclass(frozen=True, slots=True)
class Silence:
    """Standard output and error go into memory; what a standby prints, the process that trains has printed too.

    It comes out when the standby takes over.
    """

    kept: tuple[int, int]
    """Duplicates of the real descriptors 1 and 2."""
    memory: int


def be_quiet() -> Silence:
    """Begin as a standby."""
    _flush()
    silence = Silence((os.dup(1), os.dup(2)), os.memfd_create("dtj-standby"))
    for stream in (1, 2):
        os.dup2(silence.memory, stream)
    _show_as(b"dtj-standby")
    return silence


def speak(silence: Silence) -> None:
    """Say what was held back, and from now on what comes."""
    _flush()
    for stream, kept in zip((1, 2), silence.kept, strict=True):
        os.dup2(kept, stream)
        os.close(kept)
    os.lseek(silence.memory, 0, os.SEEK_SET)
    while held := os.read(silence.memory, CHUNK_BYTES):
        while held:
            held = held[os.write(1, held) :]
    os.close(silence.memory)
    _show_as(b"python")


def _flush() -> None:
    sys.stdout.flush()
    sys.stderr.flush()


def _show_as(name: bytes) -> None:
    """What lists of processes show."""
    ctypes.CDLL(None).prctl(PR_SET_NAME, name, 0, 0, 0)
