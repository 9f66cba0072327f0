"""Steps at which all processes of a program do the same, because one of them was asked to."""

import math
import time

from dtj_trainer.running import Session

LOOK_SECONDS = 0.2
AHEAD_SECONDS = 1.0

LEAVE, SAVE = "leave", "save"


class Appointments:
    """One after the other. Rank 0 sets each a second ahead, so that everybody has read it before."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._number = 0
        self._looked_at = 0.0
        self._agreed: tuple[int, str] | None = None

    def due(self, step: int, seconds_per_step: float) -> str:
        """What all processes do after `step`: LEAVE, SAVE or nothing. Each of them calls it after each of its steps."""
        if self._session.workers == 1:
            return self._wish()
        now = time.monotonic()
        if self._agreed is None and now - self._looked_at >= LOOK_SECONDS:
            self._looked_at = now
            self._look(step + 1 + math.ceil(AHEAD_SECONDS / max(1e-4, seconds_per_step)))
        if self._agreed is None or step < self._agreed[0]:
            return ""
        what, self._agreed = self._agreed[1], None
        self._number += 1
        return what

    def _wish(self) -> str:
        link = self._session.link
        if link.preempted.is_set():
            return LEAVE
        return SAVE if link.checkpoint_wanted.is_set() else ""

    def _look(self, proposed: int) -> None:
        board = self._session.board
        asked, agreed = f"appointment/{self._number}/asked", f"appointment/{self._number}/agreed"
        if wish := self._wish():
            board.offer(asked, wish)
        if self._session.rank == 0 and (what := board.peek(asked)) is not None:
            board.offer(agreed, f"{proposed} {what}")
        told = board.peek(agreed)
        if told is not None:
            at, what = told.split()
            self._agreed = int(at), what
