"""The end of the container: stopped, done together with its peers, or failed; the first reason wins."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from dtj_trainer.cluster.task_mode import TaskMode
from dtj_trainer.cluster.tf_config import Task
from dtj_trainer.contract import EXIT_PREEMPTED, EXIT_RETRY, EXIT_TERMINATED, ExitClass, ExitStatus
from dtj_trainer.ipc.messages import Leave, Preempt, ProcessExit
from dtj_trainer.supervisor.http.peer_client import PeerAnswer
from dtj_trainer.supervisor.membership import Membership, MemberState
from dtj_trainer.supervisor.progress import Progress
from dtj_trainer.supervisor.restart_policy import RestartCounter, exit_after_sigterm
from dtj_trainer.supervisor.settings import Settings
from dtj_trainer.supervisor.termination_message import TerminationMessage
from dtj_trainer.supervisor.training_process import TrainingProcess

MANAGED_GRACE: Final = 25.0
SCRIPT_GRACE: Final = 5.0
EXIT_MESSAGE_SECONDS: Final = 1.0
"""How long a process that had to be waited for, as it saved, has then to say so and leave."""
PEERS_DONE_SECONDS: Final = 5.0
"""How long the leader's program that is done waits for those of its peers."""
LEADER_LEAVE_SECONDS: Final = 0.3
"""How long the leader stays after all are done."""


class Shutdown:
    """The ordered shutdown of the container."""

    def __init__(
        self, settings: Settings, mode: TaskMode, membership: Membership, progress: Progress, *, leader: Task
    ) -> None:
        self._settings = settings
        self._mode = mode
        self._membership = membership
        self._progress = progress
        self._leader = leader
        self._leads = mode is TaskMode.COLLECTIVE and membership.me.task == leader
        self._leader_done = False
        """done.json says that the program of the leader has ended successfully."""
        self._leader_lost_at: float | None = None
        """Since when the leader does not answer, while it is waited for."""
        self.exit_status: ExitStatus | None = None
        """How the container ends; None while it goes on."""
        self.reported: ProcessExit | None = None
        """What the process said that ended it."""
        self.stopping = False
        """The process was told to stop."""
        self._kill_at: float | None = None
        """When a process is killed that was told to stop, or was done before that."""
        self._done_at: float | None = None
        self.leave_at: float | None = None
        """When a process that is done, as its peers are, is told to leave."""

    @property
    def done(self) -> bool:
        """Whether the program has ended successfully."""
        return self._done_at is not None

    def end(self, status: ExitStatus, reported: ProcessExit | None = None) -> None:
        """End with this status, unless there is one already."""
        if self.exit_status is None:
            self.exit_status, self.reported = status, reported

    def termination_message(self, restarts: RestartCounter) -> TerminationMessage:
        """Return how the container ends, and how far training came."""
        assert self.exit_status is not None
        progress = self._progress
        return TerminationMessage(
            *self.exit_status,
            exception=self.reported.exception if self.reported else "",
            step=progress.step,
            checkpoint_step=progress.checkpoint_step,
            metrics=progress.metrics,
            progress=progress.status(),
            restarts=restarts.total,
            recoveries=restarts.recoveries.status(),
        )

    def stop(self, process: TrainingProcess | None, number: int, now: float) -> None:
        """Stop on SIGTERM or SIGINT: tell the process, and set when it is killed.

        Several processes agree on a step to save at, which takes a second or more: a second SIGTERM changes nothing.
        A second SIGINT, of a person at the keyboard, ends at once what does not save yet.
        """
        serves = self._mode is TaskMode.SERVER
        if self.done:
            self._kill_at = self._kill_at or now + self._grace()
        elif process is None or not process.started or process.pid is None:
            known = self._progress.step
            when = "before anything was trained" if known is None else f"between two processes, after step {known}"
            stopped = ExitStatus(ExitClass.PREEMPTED, EXIT_TERMINATED, f"told to stop (SIGTERM) {when}")
            self.end(ExitStatus(ExitClass.DONE, 0) if serves else stopped)
        elif serves or (self.stopping and number == signal.SIGINT):
            self.stopping, self._kill_at = True, now
        elif self.stopping:
            return
        else:
            self.stopping, self._kill_at = True, now + self._grace()
            if self._progress.managed:
                process.tell(Preempt())
            else:
                with suppress(ProcessLookupError):  # it has just ended, which will be told
                    os.kill(process.pid, signal.SIGTERM)

    def _grace(self) -> float:
        """Return the grace period."""
        if self._settings.grace_seconds is not None:
            return self._settings.grace_seconds
        return MANAGED_GRACE if self._progress.managed else SCRIPT_GRACE

    def process_stopped(self, process: TrainingProcess, *, managed: bool, saved: bool) -> None:
        """End the container: the process that was told to stop is gone. `saved`: it had trained and saved all."""
        if self._mode is TaskMode.SERVER:
            self.end(ExitStatus(ExitClass.DONE, 0))
        elif self.waits_for_leader:
            self._end_waiting(saved=saved)
        else:
            self.end(exit_after_sigterm(process.exit, managed=managed, saved=saved))

    def program_done(self, now: float, *, job_done: bool) -> None:
        """Tell the peers that the program has ended successfully; `job_done`: that of the leader is known to have."""
        self._done_at = now
        self._leader_done = self._leader_done or job_done
        self._membership.set_state(MemberState.DONE)

    def start_over(self) -> None:
        """Take part in the training again: the leader's program has to start over."""
        self._done_at = self._leader_lost_at = None

    @property
    def waits_for_leader(self) -> bool:
        """Whether the program has ended successfully, but not that of the leader, which may have to start over."""
        if not self.done or self._leads or self._mode is not TaskMode.COLLECTIVE or self._leader_done:
            return False
        leader = self._membership.known.get(self._leader)
        return leader is None or leader.state is not MemberState.DONE

    def poll(self, process: TrainingProcess | None, answers: Mapping[Task, PeerAnswer], now: float) -> None:
        """Kill what has not stopped within the grace period, and let a process leave that is done.

        A process that saves is waited for: the grace period is for that. The leader leaves when all are done or some
        time has passed; the others leave when the leader is done.
        """
        if self._kill_at is not None and now >= self._kill_at:
            self._grace_over(process, now)
        if self._done_at is None:
            return
        if self.waits_for_leader:
            self._check_leader(answers, now)
            return
        if self.leave_at is None:
            if self._leads and now - self._done_at < PEERS_DONE_SECONDS and not self._all_done(answers):
                return
            self.leave_at = now + (LEADER_LEAVE_SECONDS if self._leads else 0.0)
            if process is not None:
                process.exit_reported_at = now
        if now < self.leave_at:
            return
        if process is None:
            self.end(ExitStatus(ExitClass.DONE, 0))
        else:
            process.tell(Leave())

    def _grace_over(self, process: TrainingProcess | None, now: float) -> None:
        """Kill the process that was told to stop, unless it saves."""
        if self.waits_for_leader:
            self._end_waiting(saved=self._progress.is_saved)
        elif process is not None and self._progress.is_writing(now, self._settings.save_seconds):
            self._kill_at = now + EXIT_MESSAGE_SECONDS
        elif process is not None:
            process.kill()

    def _end_waiting(self, *, saved: bool) -> None:
        """End the container of a program that is done, before that of the leader is."""
        text = f"told to stop (SIGTERM) before the program of {self._leader} has ended"
        if saved:
            self.end(ExitStatus(ExitClass.PREEMPTED, EXIT_PREEMPTED, f"{text}; the state is saved"))
        else:
            self.end(ExitStatus(ExitClass.PREEMPTED, EXIT_TERMINATED, text))

    def _check_leader(self, answers: Mapping[Task, PeerAnswer], now: float) -> None:
        """End the container where the leader has not answered for too long, or does not while this pod has to stop."""
        answer = answers.get(self._leader)
        if answer is None or not answer.problem:
            self._leader_lost_at = None
            return
        self._leader_lost_at = self._leader_lost_at or now
        if self._kill_at is not None:
            self._kill_at = now
        limit = self._settings.start_seconds
        if now - self._leader_lost_at >= limit:
            text = f"{self._leader} does not answer after {limit:g} s, and its program had not ended"
            self.end(ExitStatus(ExitClass.PEER_LOST, EXIT_RETRY, text))

    def _all_done(self, answers: Mapping[Task, PeerAnswer]) -> bool:
        known = self._membership.known
        return all(
            (task in known and known[task].state is MemberState.DONE) or bool(task in answers and answers[task].problem)
            for task in self._membership.peers
        )
