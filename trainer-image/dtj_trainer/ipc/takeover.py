"""A standby in its own process: prepares everything up to the first step, quietly, and waits to take over.

docs/decisions/041-standby-processes.md. Standard library only.
"""

from __future__ import annotations

import ctypes
import os
import sys
import time
from dataclasses import dataclass
from functools import cache
from typing import Final

from dtj_trainer.contract import EXIT_RETRY
from dtj_trainer.ipc.commands import Commands, process_commands
from dtj_trainer.ipc.reporter import Reporter, process_reporter

PR_SET_NAME: Final = 15
CHUNK_BYTES: Final = 65536


class Takeover:
    """The takeover of this process, if it is a standby: waits until it takes over."""

    def __init__(self, reporter: Reporter, commands: Commands) -> None:
        self._reporter = reporter
        self._commands = commands
        self._output: _HeldOutput | None = None

    @property
    def pending(self) -> bool:
        """Whether this process waits, or will wait, to take over."""
        return self._output is not None

    def begin(self) -> None:
        """Become a standby: its output is buffered, because the training process has printed the same."""
        self._output = _hold_output()

    def wait(self) -> float:
        """Wait for the takeover in a standby, otherwise return at once; returns the seconds waited.

        A standby that is no longer needed ends here.
        """
        self._reporter.ready_for_takeover()
        if self._output is None:
            return 0.0
        began = time.monotonic()
        self._commands.listen()
        start = self._commands.wait_for_start()
        if start is None:
            os._exit(EXIT_RETRY)
        os.environ.update(start.environment)
        output, self._output = self._output, None
        _print_held(output)
        return time.monotonic() - began


@cache
def process_takeover() -> Takeover:
    """Return the takeover of this process, always the same object."""
    return Takeover(process_reporter(), process_commands())


@dataclass(frozen=True, slots=True)
class _HeldOutput:
    """A buffer for standard output and error until the standby takes over."""

    descriptors: tuple[int, int]
    """Duplicates of the real descriptors 1 and 2."""
    memory: int


def _hold_output() -> _HeldOutput:
    _flush()
    held = _HeldOutput((os.dup(1), os.dup(2)), os.memfd_create("dtj-standby"))
    for stream in (1, 2):
        os.dup2(held.memory, stream)
    _set_process_name(b"dtj-standby")
    return held


def _print_held(output: _HeldOutput) -> None:
    """Print the buffered output, and stop buffering."""
    _flush()
    for stream, descriptor in zip((1, 2), output.descriptors, strict=True):
        os.dup2(descriptor, stream)
        os.close(descriptor)
    os.lseek(output.memory, 0, os.SEEK_SET)
    while held := os.read(output.memory, CHUNK_BYTES):
        while held:
            held = held[os.write(1, held) :]
    os.close(output.memory)
    _set_process_name(b"python")


def _flush() -> None:
    sys.stdout.flush()
    sys.stderr.flush()


def _set_process_name(name: bytes) -> None:
    """Set the name that lists of processes show."""
    ctypes.CDLL(None).prctl(PR_SET_NAME, name, 0, 0, 0)
