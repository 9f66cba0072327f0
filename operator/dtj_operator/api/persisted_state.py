"""The persisted state: what the operator stores in `status.ledger`, to continue when it is restarted.

What is added here must be something that an earlier version may ignore and lose. A change that it must not act upon
raises STATE_VERSION: an earlier version then leaves the job alone.
"""

from __future__ import annotations

from pydantic import Field

from dtj_operator.api.enums import Role
from dtj_operator.api.wire_model import Instant, Second, WireModel

STATE_VERSION = 1


class RootCause(WireModel):
    """The most likely root cause of the open incident so far."""

    role: Role = Field(description="Role of the pod.")
    index: int = Field(description="Index of the pod.")
    node: str = Field("", description="Node of the pod.")
    exit_code: int | None = Field(None, description="Exit code of its main container, if it ended.")
    cause: str = Field(description="Cause of this failure alone.")
    evidence: bool = Field(False, description="Whether there is evidence of a disruption.")
    rank: int = Field(description="Rank as root cause; smaller is more likely.")
    charge: str = Field(
        alias="standing", description="Charged; Proven (not charged); or Unproven (not charged, at most 10 in a row)."
    )
    rule: int | None = Field(None, description="Index of the failure rule that matches.")
    step: int = Field(0, description="Last training step that the pod reported.")
    at: Instant = Field(description="When the container ended, or when the operator saw that.")
    message: str = Field("", description="Termination message of the pod.")


class OpenIncident(WireModel):
    """An incident that is not closed yet."""

    opened_at: Instant = Field(description="When the first failure was seen.")
    root_cause: RootCause = Field(alias="root", description="Root cause so far; final after the restart.")
    failed: dict[Role, str] = Field(
        default_factory=dict, description="Indexes of the pods that failed within this incident, by role."
    )
    acted_attempt: int | None = Field(
        None, description="Attempt that the restart began; not set while the incident waits for the restart."
    )


class ReplicaGroup(WireModel):
    """The replicas of one role whose pods belong to the same attempt."""

    attempt: int = Field(description="Attempt of these replicas; pods of an older attempt are replaced.")
    indexes: str = Field(description="Indexes of the replicas, for instance 0-3,7.")
    observed: str = Field("", alias="seen", description="Those of them whose pod the operator has observed.")


class RepeatedEnds(WireModel):
    """The replicas of one role whose pods ended equally often while the job was not Running in between."""

    ends: int = Field(description="So many pods of each.")
    indexes: str = Field(description="Indexes of the replicas, for instance 0-3,7.")


class NodeRejections(WireModel):
    """The replicas of one role whose pods the kubelet of one node has rejected equally often."""

    node: str = Field(description="Name of the node.")
    count: int = Field(description="Rejections in a row; no more than 3 are counted.")
    indexes: str = Field(description="Indexes of the replicas, for instance 0-3,7.")


class EvaluatorRestart(WireModel):
    """The last failure of one evaluator. Evaluators restart apart from the job."""

    index: int = Field(description="Index of the evaluator.")
    uid: str = Field("", description="UID of the pod that failed; empty if the pod was gone.")
    consecutive: int = Field(0, description="Failures in a row.")
    due: Instant | None = Field(None, description="When the pod is replaced; not set after that.")
    repeated: int | None = Field(
        None, description="Pods that ended in a row without having lived for backoff.maxSeconds."
    )
    stays: bool = Field(False, description="Whether the pod is never replaced, as with restartPolicy Never.")


class CountedRecoveries(WireModel):
    """The recoveries in place that are counted of one success pod, which reports those since its start."""

    uid: str = Field(description="UID of the pod.")
    count: int = Field(description="Recoveries that it has reported.")


class PersistedState(WireModel):
    """The state that the operator needs when it is restarted."""

    version: int = Field(
        STATE_VERSION, description="Version of this state; an operator that knows only lower ones waits."
    )
    replicas: dict[Role, tuple[ReplicaGroup, ...]] = Field(
        default_factory=dict, alias="slots", description="Attempt of each replica, by role."
    )
    incident: OpenIncident | None = Field(None, description="The open incident.")
    container_restarts: dict[Role, dict[int, int]] = Field(
        default_factory=dict,
        alias="inPlace",
        description="Container restarts by the kubelet that were counted, by role and index.",
    )
    repeated_ends: dict[Role, tuple[RepeatedEnds, ...]] | None = Field(
        None, description="Pods that failed since the job was Running, by role."
    )
    rejections: dict[Role, tuple[NodeRejections, ...]] | None = Field(
        None, description="Nodes that have rejected pods since the job was Running, by role."
    )
    counted_recoveries: CountedRecoveries | None = Field(
        None, alias="recoveries", description="Recoveries in place that are counted in restarts.inPlace."
    )
    evaluators: tuple[EvaluatorRestart, ...] = Field(
        (), description="Failures of evaluators that the operator has handled."
    )
    first_pod_time: Second | None = Field(None, description="When the first pod was created, for startDeadlineSeconds.")
    first_running_time: Second | None = Field(None, description="When the job was Running for the first time.")
    started: bool = Field(False, description="Whether the job was Running since its last start or resume.")
