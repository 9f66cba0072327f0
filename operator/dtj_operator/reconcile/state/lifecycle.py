"""The life of a job in one pass: when it started, ran and ended, and with which spec and strategy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dtj_operator.api.enums import Role, StrategyType
from dtj_operator.api.job import has_hash, spec_hash
from dtj_operator.api.wire_model import whole_second
from dtj_operator.builders.strategy_choice import choose_strategy

if TYPE_CHECKING:
    from datetime import datetime

    from dtj_operator.api.job import Job
    from dtj_operator.reconcile.state.replicas import Replica


class Lifecycle:
    """The times of a job, and the spec and strategy that it was started with."""

    __slots__ = (
        "_spec",
        "_written_spec",
        "completion_time",
        "first_pod_time",
        "first_running_time",
        "spec_hash",
        "start_time",
        "started",
        "strategy",
    )

    def __init__(self, job: Job) -> None:
        """Start from what status remembers."""
        status, self._spec = job.status, job.spec
        self._written_spec = job.written_spec or job.spec
        self.start_time, self.completion_time = status.start_time, status.completion_time
        self.first_pod_time = status.persisted_state.first_pod_time
        self.first_running_time = status.persisted_state.first_running_time
        self.started = status.persisted_state.started
        """Whether the job was Running since its last start or resume."""
        self.strategy, self.spec_hash = status.strategy, status.spec_hash

    @property
    def strategy_type(self) -> StrategyType | None:
        """The strategy in use, if one was chosen."""
        return self.strategy.type if self.strategy else None

    @property
    def spec_changed(self) -> bool:
        """Whether the spec, as far as it must not change, is another than the one that was accepted last."""
        return not has_hash(self._written_spec, self.spec_hash)

    def only_serves(self, replica: Replica) -> bool:
        """Return whether the replica only serves others, and so never completes."""
        return replica.role is Role.PS or (replica.role is Role.WORKER and self.workers_serve)

    @property
    def workers_serve(self) -> bool:
        """Whether the program of the chief drives the workers: ParameterServer, and a TPU slice of several hosts."""
        kind = self.strategy_type
        if kind is StrategyType.TPU:
            return self._spec.replicas(Role.CHIEF) > 0
        return kind is StrategyType.PARAMETER_SERVER

    def accept_spec(self) -> None:
        """Remember the spec as the one to run with."""
        self.spec_hash = spec_hash(self._written_spec)

    def choose_strategy(self) -> None:
        """Choose the strategy from the spec."""
        self.strategy = choose_strategy(self._spec)

    def start(self, now: datetime) -> None:
        """Set startTime, before the first pod."""
        self.start_time = whole_second(now)

    def stop(self) -> None:
        """Forget the start, and a first pod that was never Running."""
        self.start_time, self.started = None, False
        if self.first_running_time is None:
            self.first_pod_time = None

    def first_pod(self, created: datetime) -> None:
        """Remember when the first pod was created."""
        self.first_pod_time = whole_second(created)

    def first_running(self, now: datetime) -> None:
        """Remember that the job was Running since its start, and when it was for the first time."""
        self.started = True
        self.first_running_time = self.first_running_time or whole_second(now)

    def finish(self, now: datetime) -> None:
        """Set completionTime, once."""
        self.completion_time = self.completion_time or whole_second(now)
