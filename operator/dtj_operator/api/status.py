"""The status of a DistributedTrainingJob: what people read, and what the operator remembers.

Instants that people compare with Kubernetes' own are whole seconds (`Second`); those that the
operator counts with have microseconds (`Instant`).
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import AfterValidator, Field, PlainSerializer

from dtj_operator.api.enums import Cause, ConditionType, Phase, Role, StrategyType
from dtj_operator.api.wire_model import WireModel


def whole_second(moment: datetime) -> datetime:
    """The second that `moment` falls in, as metav1.Time keeps it."""
    return moment.replace(microsecond=0)


def _aware(moment: datetime) -> datetime:
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


Second = Annotated[
    datetime,
    AfterValidator(_aware),
    PlainSerializer(lambda t: t.strftime("%Y-%m-%dT%H:%M:%SZ"), return_type=str),
]
Instant = Annotated[
    datetime,
    AfterValidator(_aware),
    PlainSerializer(lambda t: t.strftime("%Y-%m-%dT%H:%M:%S.%fZ"), return_type=str),
]


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
    unproven: int = Field(
        0,
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


class Root(WireModel):
    """The most likely root cause of the open incident, so far."""

    role: Role = Field(description="Role of the pod.")
    index: int = Field(description="Index of the pod.")
    node: str = Field("", description="Node of the pod.")
    exit_code: int | None = Field(None, description="Exit code of its main container, if it ended.")
    cause: Cause = Field(description="Cause that this failure alone would have.")
    evidence: bool = Field(False, description="Whether a disruption is proven.")
    rank: int = Field(description="How likely this is the root; smaller is likelier.")
    standing: str = Field(description="Charged, Proven (free) or Unproven (free, 10 in a row).")
    rule: int | None = Field(None, description="Index of the failure rule that matches.")
    step: int = Field(0, description="Step that the pod reported last.")
    at: Instant = Field(description="When the container ended, or when that was seen.")
    message: str = Field("", description="What the pod said last.")


class OpenIncident(WireModel):
    """The recovery under way."""

    opened_at: Instant = Field(description="When the first failure was seen.")
    root: Root = Field(description="The root cause, so far; final once acted upon.")
    failed: dict[Role, str] = Field(
        default_factory=dict, description="Indexes of the pods that failed within this incident, by role."
    )
    acted_attempt: int | None = Field(
        None, description="Attempt of the action; not set while the incident waits for it."
    )


class SlotGroup(WireModel):
    """Indexes of one role whose pods have to be of one attempt."""

    attempt: int = Field(description="Pods of an older attempt are replaced.")
    indexes: str = Field(description="For instance 0-3,7.")
    seen: str = Field("", description="Those of them whose pod has been observed to exist.")


class EvaluatorRestart(WireModel):
    """The last failure of one evaluator, which never concerns the job."""

    index: int = Field(description="Index of the evaluator.")
    uid: str = Field("", description="UID of the pod that failed; empty if it had vanished.")
    consecutive: int = Field(0, description="Failures in a row.")
    due: Instant | None = Field(None, description="When it is replaced; not set once it was.")
    stays: bool = Field(False, description="Whether it is not replaced at all, as under restartPolicy Never.")


class Ledger(WireModel):
    """What the operator has to remember to go on after a restart of its own."""

    slots: dict[Role, tuple[SlotGroup, ...]] = Field(
        default_factory=dict, description="Which attempt each pod has to be of, by role."
    )
    incident: OpenIncident | None = Field(None, description="The recovery under way.")
    in_place: dict[Role, dict[int, int]] = Field(
        default_factory=dict, description="Restarts of containers by the kubelet that were counted, by role and index."
    )
    evaluators: tuple[EvaluatorRestart, ...] = Field((), description="Failures of evaluators that were dealt with.")
    first_pod_time: Second | None = Field(None, description="When the first pod was created, for startDeadlineSeconds.")
    first_running_time: Second | None = Field(None, description="When the job was Running for the first time.")
    started: bool = Field(False, description="Whether the job was Running since its last start or resume.")


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


_NO_RESTARTS, _NO_LEDGER = Restarts(), Ledger()
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
    ledger: Ledger = Field(
        default_factory=lambda: _NO_LEDGER, description="What the operator has to remember; not for people."
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
