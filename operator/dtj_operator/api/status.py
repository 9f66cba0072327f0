"""The status of a DistributedTrainingJob: what people read, and what the operator remembers.

Instants that people compare with Kubernetes' own are whole seconds (`Second`); those that the
operator counts with have microseconds (`Instant`).
"""

from __future__ import annotations

from typing import Any

from pydantic import Field

from dtj_operator.api.enums import Cause, ConditionType, Phase, Role, StrategyType
from dtj_operator.api.persisted_state import PersistedState
from dtj_operator.api.wire_model import Instant, Second, WireModel


class Condition(WireModel):
    """A metav1.Condition."""

    type: ConditionType = Field(description="Which aspect of the job this is about.")
    status: str = Field(description="True, False or Unknown.", json_schema_extra={"enum": ["True", "False", "Unknown"]})
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
    """Counts of one role."""

    desired: int = Field(0, description="Pods wanted.")
    created: int = Field(0, description="Pods that exist.")
    ready: int = Field(0, description="Pods that are Ready.")
    succeeded: int = Field(0, description="Replicas that are done.")
    failed: int = Field(0, description="Pods that have failed and are not replaced yet.")
    restarts: int = Field(0, description="Pods replaced or restarted in place because of failures.")


class Restarts(WireModel):
    """Incidents that were acted upon."""

    total: int = Field(0, description="All incidents acted upon.")
    charged: int = Field(0, description="Those that count towards failurePolicy.maxRestarts.")
    by_cause: dict[Cause, int] = Field(default_factory=dict, description="All of them by cause.")


class BackoffStatus(WireModel):
    """Where the waiting before restarts stands."""

    consecutive: int = Field(0, description="Restarts in a row that made the waiting longer, since the last reset.")
    next_attempt_time: Instant | None = Field(None, description="When the next restart is due.")
    free: int = Field(0, description="Restarts free of charge in a row.")
    free_limited: int = Field(
        0,
        alias="unproven",
        description="Restarts free of charge in a row without evidence of a disruption; more than 10 are charged.",
    )
    step: int = Field(0, description="Highest training step reported when the row began.")


class LastIncident(WireModel):
    """The last incident that was acted upon, or that ended the job."""

    time: Instant = Field(description="When its first failure was seen.")
    cause: Cause = Field(description="Its root cause.")
    role: str = Field("", description="Role of the pod that is the root cause.")
    index: int = Field(0, description="Index of that pod.")
    node: str = Field("", description="Node of that pod.")
    exit_code: int | None = Field(None, description="Exit code of that pod's main container.")
    message: str = Field("", description="What that pod said last.")
    action: str = Field("", description="What the operator did.")
    recovered_at: Instant | None = Field(None, description="When the job was Running again.")
    recovery_seconds: float | None = Field(None, description="From time to recoveredAt.")


class Progress(WireModel):
    """How far the training is, as the success pod reports it."""

    step: int | None = Field(None, description="Training steps made.")
    total_steps: int | None = Field(None, description="Training steps wanted, if known.")
    epoch: float | None = Field(None, description="Epoch under way.")
    steps_per_second: float | None = Field(None, description="Speed in steps.")
    examples_per_second: float | None = Field(None, description="Speed in examples.")
    loss: float | None = Field(None, description="The last loss.")
    metrics: dict[str, float] = Field(default_factory=dict, description="The last metrics by name.")
    last_checkpoint_step: int | None = Field(None, description="Step of the last checkpoint.")
    updated_at: Instant | None = Field(None, description="When these values were read.")


_NO_RESTARTS, _NOTHING_PERSISTED = Restarts(), PersistedState()
"""Defaults that all jobs share. As plain defaults pydantic copies them deeply for each status that it reads, because
dicts are in them: that took most of the reading."""


class JobStatus(WireModel):
    """What is known of the job."""

    observed_generation: int = Field(0, description="Generation of the spec that was acted upon.")
    phase: Phase = Field(Phase.PENDING, description="The state in one word, for people.")
    message: str = Field("", description="One sentence: what the job waits for, or what happened last.")
    workers: str = Field("", description="Ready and wanted pods of chief and workers.")
    conditions: tuple[Condition, ...] = Field((), description="The state, for programs.")
    strategy: StrategyChoice | None = Field(None, description="The strategy in use, and why.")
    spec_hash: str = Field("", description="Hash of the spec the job was started with.")
    start_time: Second | None = Field(None, description="When the job was started or resumed; not set while suspended.")
    completion_time: Second | None = Field(None, description="When the job succeeded or failed.")
    replica_statuses: dict[Role, ReplicaStatus] = Field(default_factory=dict, description="Counts by role.")
    attempt: int = Field(0, description="Goes up with each incident's action, each resume and each scaling.")
    restarts: Restarts = Field(default_factory=lambda: _NO_RESTARTS, description="Incidents that were acted upon.")
    backoff: BackoffStatus = Field(BackoffStatus(), description="Where the waiting before restarts stands.")
    last_incident: LastIncident | None = Field(
        None, description="The last incident that was acted upon, or that ended the job."
    )
    completed: dict[Role, tuple[int, ...]] = Field(
        default_factory=dict, description="Indexes that are done and never run again, by role."
    )
    selector: str = Field("", description="Label selector of the worker pods.")
    progress: Progress | None = Field(None, description="How far the training is.")
    persisted_state: PersistedState = Field(
        default_factory=lambda: _NOTHING_PERSISTED,
        alias="ledger",
        description="What the operator has to remember; not for people.",
    )

    def condition(self, kind: ConditionType) -> Condition | None:
        """The condition of that type, if it was ever set."""
        for condition in self.conditions:
            if condition.type == kind:
                return condition
        return None

    def holds(self, kind: ConditionType) -> bool:
        """Whether the condition of that type is True."""
        condition = self.condition(kind)
        return condition is not None and condition.holds

    @property
    def finished(self) -> bool:
        """Whether the job has succeeded or failed, for ever."""
        return self.holds(ConditionType.SUCCEEDED) or self.holds(ConditionType.FAILED)

    def wire(self) -> dict[str, Any]:
        """The exact JSON for the status subresource; what is not set is left out."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)
