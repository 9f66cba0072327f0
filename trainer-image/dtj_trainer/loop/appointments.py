"""Steps at which all processes of a program do the same, because one of them was asked to."""

import math
import time
from dataclasses import dataclass

from dtj_trainer.running import Session

LOOK_SECONDS = 0.2
AHEAD_SECONDS = 1.0

LEAVE, SAVE = "leave", "save"


class Appointments:
    """One after the other. Rank 0 sets each about a second ahead, and it holds if everybody has read it by then.

    Steps have no sure length, so somebody can come past the step without having read it; then nobody acts, and the
    next appointment is made further ahead.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._number = 0
        self._missed = 0
        self._looked_at = 0.0
        self._next: _Appointment | None = None

    def due(self, step: int, seconds_per_step: float) -> str:
        """What all processes do after `step`: LEAVE, SAVE or nothing. Each of them calls it after each of its steps."""
        if self._session.workers == 1:
            return self._wish()
        now = time.monotonic()
        if self._next is None and now - self._looked_at >= LOOK_SECONDS:
            self._looked_at = now
            self._look(step, math.ceil(AHEAD_SECONDS / max(1e-4, seconds_per_step)) << self._missed)
        if self._next is None or step < self._next.step:
            return ""
        appointment, self._next = self._next, None
        holds = step == appointment.step and self._holds()
        self._number += 1
        self._missed = 0 if holds else self._missed + 1
        return appointment.what if holds else ""

    def _wish(self) -> str:
        link = self._session.link
        if link.preempted.is_set():
            return LEAVE
        return SAVE if link.checkpoint_wanted.is_set() else ""

    def _look(self, step: int, ahead: int) -> None:
        board, rank = self._session.board, self._session.rank
        if wish := self._wish():
            board.offer(self._key("asked"), wish)
        if rank == 0 and (what := board.peek(self._key("asked"))) is not None:
            board.offer(self._key("made"), f"{step + 1 + ahead} {what}")
        if (told := board.peek(self._key("made"))) is None:
            return
        at, what = told.split()
        self._next = _Appointment(int(at), what)
        if step <= self._next.step:
            board.offer(self._key(f"read/{rank}"), "yes")

    def _holds(self) -> bool:
        """Whether everybody has read it, as rank 0 sees it when it comes to the step."""
        board = self._session.board
        if self._session.rank == 0:
            read = (board.peek(self._key(f"read/{rank}")) for rank in range(self._session.workers))
            board.offer(self._key("holds"), "no" if None in read else "yes")
        return board.read(self._key("holds")) == "yes"

    def _key(self, name: str) -> str:
        return f"appointment/{self._number}/{name}"


@dataclass(frozen=True, slots=True)
class _Appointment:
    step: int
    what: str
