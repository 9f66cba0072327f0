"""Finds out whether the servers of a ParameterServer job are alive: TensorFlow waits forever for a frozen one."""

import statistics
import threading
import time
from collections import deque

from dtj_trainer.cluster.probes import serves
from dtj_trainer.cluster.tf_config import Task
from dtj_trainer.context import TrainContext
from dtj_trainer.errors import PeerLost

STALL_FACTOR, STALL_SECONDS = 10.0, 30.0
FIRST_CALL_SECONDS = 600.0
"""The first steps compile, so the time of a step is not known yet."""
UNUSED_SECONDS = 20.0
PROBE_SECONDS = 5.0
WINDOW = 101


class ServerHealth:
    """The health of workers and ps: raises PeerLost when a call cannot complete any more."""

    def __init__(self, context: TrainContext) -> None:
        self._config = context.environment.tf_config
        self._limit = context.environment.stall_seconds
        self._saves = bool(context.environment.checkpoint.directory)
        self._durations: deque[float] = deque(maxlen=WINDOW)
        workers = context.environment.members("worker")
        now = time.monotonic()
        self._used_at = [now] * workers
        self._answering_since: dict[int, float] = {}
        self._probed_at = now
        self._calls = 0

    def used(self, workers: set[int], steps: int, seconds: float) -> None:
        """Record that a call of `steps` closures, run by `workers`, completed after `seconds`."""
        self._calls += 1
        if self._calls > 1:
            self._durations.append(seconds / steps)
        now = time.monotonic()
        for worker in range(len(self._used_at)):
            # With fewer closures than workers it is unknown whether one was left out.
            if worker in workers or steps < 2 * len(self._used_at):
                self._used_at[worker] = now
        self._check_unused(now)

    def waiting(self, seconds: float, steps: int) -> None:
        """Record that a call of `steps` closures has not completed after `seconds`.

        Raises:
            PeerLost: it takes longer than any call should; names the servers that do not answer.
        """
        if seconds <= self._stall_after(steps):
            return
        silent = [task for task in self._config.serving_tasks if not self._answers(task)]
        who = " and ".join(f"{task} ({self._config.address(task)})" for task in silent)
        raise PeerLost(
            f"no step came back for {seconds:.0f} s and {who} {'do' if len(silent) > 1 else 'does'} not answer"
            if silent
            else f"no step came back for {seconds:.0f} s, though every worker and ps answers"
        )

    def _stall_after(self, steps: int) -> float:
        if not self._durations:
            return FIRST_CALL_SECONDS if self._limit is None else max(self._limit, STALL_SECONDS)
        step = statistics.median(self._durations)
        return step * steps + (STALL_FACTOR * step + STALL_SECONDS if self._limit is None else self._limit)

    def _check_unused(self, now: float) -> None:
        """Restart to reconnect a worker that was replaced at a new address: it answers but gets no closure.

        Raises:
            PeerLost: so that this process is forked again, from its checkpoint.
        """
        idle = [worker for worker, at in enumerate(self._used_at) if now - at > UNUSED_SECONDS]
        for worker in list(self._answering_since):
            if worker not in idle:
                del self._answering_since[worker]
        if not idle or not self._saves:
            return
        if now - self._probed_at > PROBE_SECONDS:
            self._probed_at = now
            threading.Thread(target=self._probe, args=(idle,), daemon=True).start()
        patience = UNUSED_SECONDS + (STALL_FACTOR * statistics.median(self._durations) if self._durations else 0.0)
        for worker, since in list(self._answering_since.items()):
            if now - since > patience:
                task = Task("worker", worker)
                raise PeerLost(
                    f"{task} ({self._config.address(task)}) is back and not used; starting from the checkpoint"
                )

    def _probe(self, workers: list[int]) -> None:
        for worker in workers:
            if self._answers(Task("worker", worker)):
                self._answering_since.setdefault(worker, time.monotonic())
            else:
                self._answering_since.pop(worker, None)

    def _answers(self, task: Task) -> bool:
        return serves(*self._config.endpoint(task))
