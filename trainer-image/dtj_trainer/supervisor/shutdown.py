"""How the pod ends: told to stop, done together with its peers, or for a reason of its own; the first reason stands."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from dtj_trainer.cluster.task_mode import Part, Place
from dtj_trainer.cluster.tf_config import Task
from dtj_trainer.contract import EXIT_TERMINATED, ExitClass
from dtj_trainer.ipc.messages import Leave, Preempt
from dtj_trainer.supervisor import process_pool
from dtj_trainer.supervisor.http.peer_client import Answer
from dtj_trainer.supervisor.membership import Rendezvous, Stage
from dtj_trainer.supervisor.progress import Progress
from dtj_trainer.supervisor.settings import Settings
from dtj_trainer.supervisor.termination_message import Ending
from dtj_trainer.supervisor.training_process import Child, judge_stopped

MANAGED_GRACE: Final = 25.0
SCRIPT_GRACE: Final = 5.0
LAST_WORD_SECONDS: Final = 1.0
"""How long one that had to be waited for, as it saved, has then to say so and leave."""
LINGER_SECONDS: Final = 5.0
"""How long one that is done waits for its peers to be."""
LEADER_LINGER_SECONDS: Final = 0.3


class Departure:
    """Out of here, in order."""

    def __init__(self, settings: Settings, place: Place, rendezvous: Rendezvous, progress: Progress) -> None:
        self._settings = settings
        self._place = place
        self._rendezvous = rendezvous
        self._progress = progress
        self.ending: Ending | None = None
        self.stopping = False
        """The child was told to stop."""
        self._kill_at: float | None = None
        """When a child is killed that was told to stop, or was done before that."""
        self._done_at: float | None = None
        self.leave_at: float | None = None
        """When a child that is done, as its peers are, is let go."""

    @property
    def done(self) -> bool:
        """Whether the program has ended well."""
        return self._done_at is not None

    def end(self, ending: Ending) -> None:
        """For this reason, unless there is one already."""
        self.ending = self.ending or ending

    def stop(self, child: Child | None, now: float) -> None:
        """SIGTERM."""
        serves = self._place.part is Part.SERVER
        if self.done:
            self._kill_at = self._kill_at or now + self._grace()
        elif child is None or not child.released or child.pid is None:
            known = self._progress.step
            when = "before anything was trained" if known is None else f"between two processes, after step {known}"
            text = f"told to stop (SIGTERM) {when}"
            self.end(Ending(ExitClass.DONE, 0) if serves else Ending(ExitClass.PREEMPTED, EXIT_TERMINATED, text))
        elif serves or self.stopping:
            self.stopping, self._kill_at = True, now
        else:
            self.stopping, self._kill_at = True, now + self._grace()
            if self._progress.managed:
                child.say(Preempt())
            else:
                with suppress(ProcessLookupError):  # it has just ended, which will be told
                    os.kill(child.pid, signal.SIGTERM)

    def _grace(self) -> float:
        if self._settings.grace_seconds is not None:
            return self._settings.grace_seconds
        return MANAGED_GRACE if self._progress.managed else SCRIPT_GRACE

    def stopped(self, child: Child, *, managed: bool) -> None:
        """The child that was told to stop is gone."""
        serves = self._place.part is Part.SERVER
        self.end(Ending(ExitClass.DONE, 0) if serves else judge_stopped(child, managed=managed))

    def finished(self, now: float) -> None:
        """The program has ended well."""
        self._done_at = now
        self._rendezvous.stand(Stage.DONE)

    def tend(self, child: Child | None, answers: Mapping[Task, Answer], now: float) -> None:
        """Kill what has not stopped in time, unless it saves, which is what the time is for; let go what is done:
        together with its peers, the leader last.
        """
        if child is None:
            return
        if self._kill_at is not None and now >= self._kill_at:
            if self._progress.writes(now, self._settings.save_seconds):
                self._kill_at = now + LAST_WORD_SECONDS
            elif child.pid:
                process_pool.kill(child.pid)
        if self._done_at is None:
            return
        if self.leave_at is None:
            if now - self._done_at < LINGER_SECONDS and not self._all_done(answers):
                return
            leader = self._place.config.is_leader and self._place.part is Part.MEMBER
            self.leave_at = now + (LEADER_LINGER_SECONDS if leader else 0.0)
        if now >= self.leave_at:
            child.say(Leave())

    def _all_done(self, answers: Mapping[Task, Answer]) -> bool:
        if self._place.part is not Part.MEMBER:
            return True
        known = self._rendezvous.known
        return all(
            (task in known and known[task].stage is Stage.DONE) or bool(task in answers and answers[task].trouble)
            for task in self._place.peers
        )
