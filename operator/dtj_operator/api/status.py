"""The status of a DistributedTrainingJob: conditions, counts, restarts, progress.

A later version may know more phases, causes and types of conditions: words that nothing is decided by are read as text.
"""

from __future__ import annotations

from typing import Any

from pydantic import Field

from dtj_operator.api.enums import ConditionType, Phase, Role, StrategyType
from dtj_operator.api.persisted_state import PersistedState
from dtj_operator.api.wire_model import Instant, Second, WireModel


class Condition(WireModel):
    """A condition, as metav1.Condition."""

    type: str = Field(description="Which aspect of the job this is about.")
    status: str = Field(description="True, False or Unknown.")
    reason: str = Field(description="One word for the last change of status, for programs.")
    message: str = Field("", description="One sentence for people.")
    last_transition_time: Second = Field(description="When status changed last.")

    @property
    def holds(self) -> bool:
        """Whether the condition is True."""
        return self.status == "True"


class StrategyChoice(WireModel):
    """The strategy in use."""

    type: StrategyType = Field(description="The strategy in use, never Auto.")
    reason: str = Field("", description="Why this one.")


class ReplicaStatus(WireModel):
    """The pod counts of one role."""

    desired: int = Field(0, description="Desired pods.")
    created: int = Field(0, description="Pods that exist.")
    ready: int = Field(0, description="Pods that are Ready.")
    succeeded: int = Field(0, description="Replicas that have completed.")
    failed: int = Field(0, description="Pods that have failed and are not replaced yet.")
    restarts: int = Field(0, description="Restarts because of failures, by the operator or by the kubelet.")


class Restarts(WireModel):
    """The counts of the incidents that led to a restart."""

    total: int = Field(0, description="All incidents that led to a restart.")
    charged: int = Field(0, description="Those of them that count towards failurePolicy.maxRestarts.")
    by_cause: dict[str, int] = Field(default_factory=dict, description="All of them, by cause.")
    in_place: int = Field(0, description="Recoveries in place, which the trainers made without the operator.")


class BackoffStatus(WireModel):
    """The state of the backoff between restarts."""

    consecutive: int = Field(0, description="Restarts in a row that made the backoff longer, since its last reset.")
    next_attempt_time: Instant | None = Field(None, description="When the next restart is due.")
    free: int = Field(0, description="Restarts in a row that were not charged.")
    free_limited: int = Field(
        0,
        alias="unproven",
        description="Restarts in a row that were not charged although there was no evidence of a disruption; "
        "after 10 they are charged.",
    )
    step: int = Field(0, description="Highest training step that was reported when this row of restarts began.")


class LastIncident(WireModel):
    """The last incident that led to a restart, or that failed the job."""

    time: Instant = Field(description="When its first failure was seen.")
    cause: str = Field(description="Its root cause.")
    role: str = Field("", description="Role of the pod that is the root cause.")
    index: int = Field(0, description="Index of that pod.")
    node: str = Field("", description="Node of that pod.")
    exit_code: int | None = Field(None, description="Exit code of that pod's main container.")
    message: str = Field("", description="Termination message of that pod.")
    action: str = Field("", description="Action of the operator.")
    recovered_at: Instant | None = Field(None, description="When the job was Running again.")
    recovery_seconds: float | None = Field(None, description="From time to recoveredAt.")


class LastRecovery(WireModel):
    """The last recovery in place: a training process failed, and its pod and its peers went on without a new pod."""

    time: Instant = Field(description="When all trained again.")
    seconds: float = Field(description="From the failure until all trained again.")
    cause: str = Field(description="Why the training process failed.")
    role: str = Field("", description="Role of the pod whose training process failed.")
    index: int = Field(0, description="Index of that pod.")


class Progress(WireModel):
    """The training progress that the success replica reports."""

    step: int | None = Field(None, description="Completed training steps.")
    total_steps: int | None = Field(None, description="All training steps of the job, if known.")
    epoch: float | None = Field(None, description="Current epoch.")
    steps_per_second: float | None = Field(None, description="Training steps per second.")
    examples_per_second: float | None = Field(None, description="Training examples per second.")
    loss: float | None = Field(None, description="Last reported loss.")
    metrics: dict[str, float] = Field(default_factory=dict, description="Last reported metrics, by name.")
    last_checkpoint_step: int | None = Field(None, description="Step of the last checkpoint.")
    updated_at: Instant | None = Field(None, description="When these values were read.")


_NO_RESTARTS, _NOTHING_PERSISTED = Restarts(), PersistedState()
"""Defaults that all jobs share. Pydantic would deep-copy plain defaults with dicts in them for each status that it
reads, which took most of the time of reading."""


class JobStatus(WireModel):
    """The observed state of the job."""

    observed_generation: int = Field(0, description="Generation of the spec that the operator has acted on.")
    phase: str = Field(Phase.PENDING, description="State of the job in one word, for people.")
    message: str = Field("", description="One sentence for people: what the job waits for, or what happened last.")
    workers: str = Field("", description="Ready and desired pods of chief and workers.")
    conditions: tuple[Condition, ...] = Field((), description="State of the job, for programs.")
    strategy: StrategyChoice | None = Field(None, description="The strategy in use, and why.")
    spec_hash: str = Field("", description="Hash of the spec that the job was started with.")
    profile_hash: str | None = Field(None, description="Hash of the profile that the pods of this attempt have.")
    start_time: Second | None = Field(None, description="When the job was started or resumed; not set while suspended.")
    completion_time: Second | None = Field(None, description="When the job succeeded or failed.")
    replica_statuses: dict[Role, ReplicaStatus] = Field(default_factory=dict, description="Counts by role.")
    attempt: int = Field(0, description="Increases with each restart, resume and scaling.")
    restarts: Restarts = Field(default_factory=lambda: _NO_RESTARTS, description="Incidents that led to a restart.")
    backoff: BackoffStatus = Field(BackoffStatus(), description="State of the backoff between restarts.")
    last_incident: LastIncident | None = Field(
        None, description="The last incident that led to a restart, or that failed the job."
    )
    last_recovery: LastRecovery | None = Field(None, description="The last recovery in place.")
    completed: dict[Role, tuple[int, ...]] = Field(
        default_factory=dict, description="Indexes of the replicas that have completed and never run again, by role."
    )
    selector: str = Field("", description="Label selector of the worker pods.")
    progress: Progress | None = Field(None, description="Training progress, as the success replica reports it.")
    persisted_state: PersistedState = Field(
        default_factory=lambda: _NOTHING_PERSISTED,
        alias="ledger",
        description="State that the operator needs when it is restarted; not for people.",
    )

    def condition(self, kind: ConditionType) -> Condition | None:
        """Return the condition of that type, or None if it was never set."""
        for condition in self.conditions:
            if condition.type == kind:
                return condition
        return None

    def holds(self, kind: ConditionType) -> bool:
        """Tell whether the condition of that type is True."""
        condition = self.condition(kind)
        return condition is not None and condition.holds

    @property
    def finished(self) -> bool:
        """Whether the job has succeeded or failed; this never changes back."""
        return self.holds(ConditionType.SUCCEEDED) or self.holds(ConditionType.FAILED)

    def wire(self) -> dict[str, Any]:
        """Return the JSON of the status subresource; fields that are None are left out."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)
