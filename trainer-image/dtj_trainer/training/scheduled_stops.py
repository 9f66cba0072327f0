"""Steps at which all processes of a program do the same, because one of them was asked to."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from dtj_trainer.context import TrainContext

AHEAD_SECONDS = 1.0
READ_SECONDS = 1.0
"""How long what somebody has written may be on its way to rank 0."""

LEAVE, SAVE = "leave", "save"
Seen = Callable[[], str | None]


class ScheduledStops:
    """One after the other. Rank 0 sets each about a second ahead, and it holds if everybody has read it by then.

    Steps have no sure length, so somebody can come past the step without having read it; then nobody acts, and the
    next stop is set further ahead. A step that nobody reports means the first one after it that is.
    """

    def __init__(self, context: TrainContext) -> None:
        self._context = context
        self._prefix = context.coordination.new_prefix()
        self._number = 0
        self._missed = 0
        self._before = -1
        """The step of the last call."""
        self._next: _Stop | None = None
        self._asked: Seen | None = None
        self._made: Seen | None = None
        self._wished = False

    def due(self, step: int, seconds_per_step: float) -> str:
        """What all processes do after `step`: LEAVE, SAVE or nothing. Each of them calls it after the same steps."""
        if self._context.workers == 1:
            return self._wish()
        before, self._before = self._before, step
        if self._next is None:
            ahead = math.ceil(AHEAD_SECONDS / max(1e-4, seconds_per_step)) if seconds_per_step else 1
            self._look(before, step + (ahead << self._missed))
        if self._next is None or step < self._next.step:
            return ""
        stop, self._next = self._next, None
        holds = before < stop.step and self._holds()
        self._number += 1
        self._asked = self._made = None
        self._wished = False
        self._missed = 0 if holds else self._missed + 1
        return stop.what if holds else ""

    def close(self) -> None:
        """There are no more steps: nobody has to look out any longer."""
        if self._made is not None:
            for name in ("asked", "made"):
                self._context.coordination.set(self._key(name), "")

    def _wish(self) -> str:
        commands = self._context.commands
        if commands.preempted.is_set():
            return LEAVE
        return SAVE if commands.checkpoint_wanted.is_set() else ""

    def _look(self, before: int, proposed: int) -> None:
        coordination, rank = self._context.coordination, self._context.rank
        if self._made is None:
            self._made = coordination.watch(self._key("made"))
            self._asked = coordination.watch(self._key("asked")) if rank == 0 else None
        if not self._wished and (wish := self._wish()):
            self._wished = True
            coordination.set(self._key("asked"), wish)
        if self._asked is not None and (what := self._asked()):
            coordination.set(self._key("made"), f"{proposed} {what}")
        if not (told := self._made()):
            return
        at, what = told.split()
        self._next = _Stop(int(at), what)
        if before < self._next.step:
            coordination.set(self._key(f"read/{rank}"), "yes")

    def _holds(self) -> bool:
        """Whether everybody has read it in time, as rank 0 sees it when it comes to the step."""
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
