"""Steps at which all processes save, or save and exit, because one of them was asked to."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from dtj_trainer.context import TrainContext

AHEAD_SECONDS = 1.0
READ_SECONDS = 1.0
"""How long a key written by another process may take to reach rank 0."""

LEAVE, SAVE = "leave", "save"
ReadKey = Callable[[], str | None]


class ScheduledStops:
    """The scheduled stops of one program, one at a time.

    Rank 0 sets each about a second ahead; it is valid if every process has read it before that step. Step times vary,
    so a process can pass the step without having read it; then no process acts, and the next stop is set further
    ahead. If the step itself is not reported, the first reported step after it counts.
    """

    def __init__(self, context: TrainContext) -> None:
        self._context = context
        self._prefix = context.coordination.new_prefix()
        self._number = 0
        self._missed = 0
        self._before = -1
        """The step of the last call."""
        self._next: _Stop | None = None
        self._asked: ReadKey | None = None
        self._made: ReadKey | None = None
        self._request_sent = False

    def due(self, step: int, seconds_per_step: float) -> str:
        """Return what all processes do after `step`: LEAVE, SAVE or "". Each of them calls it after the same steps."""
        if self._context.workers == 1:
            return self._requested_action()
        before, self._before = self._before, step
        if self._next is None:
            ahead = math.ceil(AHEAD_SECONDS / max(1e-4, seconds_per_step)) if seconds_per_step else 1
            self._exchange(before, step + (ahead << self._missed))
        if self._next is None or step < self._next.step:
            return ""
        stop, self._next = self._next, None
        holds = before < stop.step and self._all_have_read()
        self._number += 1
        self._asked = self._made = None
        self._request_sent = False
        self._missed = 0 if holds else self._missed + 1
        return stop.what if holds else ""

    def close(self) -> None:
        """Stop watching the keys: there are no more steps."""
        if self._made is not None:
            for name in ("asked", "made"):
                self._context.coordination.set(self._key(name), "")

    def _requested_action(self) -> str:
        """Return what this process was asked to do: LEAVE, SAVE or ""."""
        commands = self._context.commands
        if commands.preempted.is_set():
            return LEAVE
        return SAVE if commands.checkpoint_wanted.is_set() else ""

    def _exchange(self, before: int, proposed: int) -> None:
        """Publish this process's request, and read the next stop; rank 0 turns a request into a stop."""
        coordination, rank = self._context.coordination, self._context.rank
        if self._made is None:
            self._made = coordination.watch(self._key("made"))
            self._asked = coordination.watch(self._key("asked")) if rank == 0 else None
        if not self._request_sent and (action := self._requested_action()):
            self._request_sent = True
            coordination.set(self._key("asked"), action)
        if self._asked is not None and (what := self._asked()):
            coordination.set(self._key("made"), f"{proposed} {what}")
        if not (value := self._made()):
            return
        at, what = value.split()
        self._next = _Stop(int(at), what)
        if before < self._next.step:
            coordination.set(self._key(f"read/{rank}"), "yes")

    def _all_have_read(self) -> bool:
        """Return whether every process has read the stop in time; rank 0 decides when it reaches the step."""
        coordination = self._context.coordination
        if self._context.rank == 0:
            read = all(
                coordination.has(self._key(f"read/{rank}"), READ_SECONDS) for rank in range(self._context.workers)
            )
            coordination.set(self._key("holds"), "yes" if read else "no")
        return coordination.get(self._key("holds")) == "yes"

    def _key(self, name: str) -> str:
        return f"{self._prefix}/{self._number}/{name}"


@dataclass(frozen=True, slots=True)
class _Stop:
    step: int
    what: str
