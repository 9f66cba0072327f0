"""What status remembers for a restart of the operator itself."""

from __future__ import annotations

from pydantic import Field

from dtj_operator.api.enums import Cause, Role
from dtj_operator.api.wire_model import Instant, Second, WireModel


class RootCause(WireModel):
    """The most likely root cause of the open incident, so far."""

    role: Role = Field(description="Role of the pod.")
    index: int = Field(description="Index of the pod.")
    node: str = Field("", description="Node of the pod.")
    exit_code: int | None = Field(None, description="Exit code of its main container, if it ended.")
    cause: Cause = Field(description="Cause that this failure alone would have.")
    evidence: bool = Field(False, description="Whether a disruption is proven.")
    rank: int = Field(description="How likely this is the root; smaller is likelier.")
    charge: str = Field(alias="standing", description="Charged, Proven (free) or Unproven (free, 10 in a row).")
    rule: int | None = Field(None, description="Index of the failure rule that matches.")
    step: int = Field(0, description="Step that the pod reported last.")
    at: Instant = Field(description="When the container ended, or when that was seen.")
    message: str = Field("", description="What the pod said last.")


class OpenIncident(WireModel):
    """The recovery under way."""

    opened_at: Instant = Field(description="When the first failure was seen.")
    root_cause: RootCause = Field(alias="root", description="The root cause, so far; final once acted upon.")
    failed: dict[Role, str] = Field(
        default_factory=dict, description="Indexes of the pods that failed within this incident, by role."
    )
    acted_attempt: int | None = Field(
        None, description="Attempt of the action; not set while the incident waits for it."
    )


class ReplicaGroup(WireModel):
    """Indexes of one role whose pods have to be of one attempt."""

    attempt: int = Field(description="Pods of an older attempt are replaced.")
    indexes: str = Field(description="For instance 0-3,7.")
    observed: str = Field("", alias="seen", description="Those of them whose pod has been observed to exist.")


class EvaluatorRestart(WireModel):
    """The last failure of one evaluator, which never concerns the job."""

    index: int = Field(description="Index of the evaluator.")
    uid: str = Field("", description="UID of the pod that failed; empty if it had vanished.")
    consecutive: int = Field(0, description="Failures in a row.")
    due: Instant | None = Field(None, description="When it is replaced; not set once it was.")
    stays: bool = Field(False, description="Whether it is not replaced at all, as under restartPolicy Never.")


class PersistedState(WireModel):
    """What the operator has to remember to go on after a restart of its own."""

    replicas: dict[Role, tuple[ReplicaGroup, ...]] = Field(
        default_factory=dict, alias="slots", description="Which attempt each pod has to be of, by role."
    )
    incident: OpenIncident | None = Field(None, description="The recovery under way.")
    container_restarts: dict[Role, dict[int, int]] = Field(
        default_factory=dict,
        alias="inPlace",
        description="Restarts of containers by the kubelet that were counted, by role and index.",
    )
    evaluators: tuple[EvaluatorRestart, ...] = Field((), description="Failures of evaluators that were dealt with.")
    first_pod_time: Second | None = Field(None, description="When the first pod was created, for startDeadlineSeconds.")
    first_running_time: Second | None = Field(None, description="When the job was Running for the first time.")
    started: bool = Field(False, description="Whether the job was Running since its last start or resume.")
