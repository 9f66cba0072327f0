"""Everything known about one job at one moment.

The reconciler gathers it, `decide` reads it. Values only: no I/O, no clock.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dtj_operator.api.job import Job
    from dtj_operator.api.status import LastRecovery, Progress
    from dtj_operator.reconcile.state.blocked_writes import BlockedWrite

TERMINAL = frozenset({"Succeeded", "Failed"})
"""Pod phases that are final."""


@dataclass(frozen=True, slots=True)
class Terminated:
    """The end of a container, as the kubelet reports it."""

    exit_code: int
    reason: str
    message: str
    finished_at: datetime | None


@dataclass(frozen=True, slots=True)
class Container:
    """The state of one container of a pod."""

    name: str
    init: bool
    """Whether it runs before the others, or was begun before them."""
    restart_count: int
    waiting_reason: str
    waiting_message: str
    terminated: Terminated | None
    """How it ended; None where it failed and the kubelet restarts it for its own restartPolicy."""
    last_terminated: Terminated | None


@dataclass(frozen=True, slots=True)
class Pod:
    """The fields that the decisions need of a pod that a job owns, or that has the label of one."""

    name: str
    uid: str
    resource_version: str
    owner_uid: str
    """UID of the controller reference; empty when there is none."""
    role: str
    index: int
    """Role and index by its name; empty and -1 where that is no replica's."""
    attempt: int
    """The attempt at which the operator made it; -1 where it did not."""
    created_at: datetime
    deleted_at: datetime | None
    """deletionTimestamp."""
    phase: str
    over: bool
    """The kubelet says itself that nothing of it runs any more."""
    finalizers: bool
    """Whether the object stays, once deleted, until somebody else lets it go."""
    reason: str
    message: str
    ready: bool
    node: str
    """Empty while unbound."""
    ip: str
    host_network: bool
    unschedulable: str
    """Message of PodScheduled=False with reason Unschedulable, else empty."""
    disruption: str
    """Reason of DisruptionTarget=True, else empty."""
    taken_away_at: datetime | None
    """When its disruption or its deletion began, whichever was first; None where neither did or the time is unknown."""
    not_ready_reason: str
    """Reason of Ready=False (for instance NodeNotReady), else empty."""
    not_ready_since: datetime | None
    """When Ready became False, else None."""
    containers: tuple[Container, ...] = ()


@dataclass(frozen=True, slots=True)
class Service:
    """The job's headless service, or whatever has its name."""

    name: str
    uid: str
    owner_uid: str
    deleted_at: datetime | None


@dataclass(frozen=True, slots=True)
class ReportedRecoveries:
    """The recoveries in place that a success pod reports."""

    pod_uid: str
    count: int
    """Since the pod started."""
    last: LastRecovery


@dataclass(frozen=True, slots=True)
class Node:
    """A node, and whether the node monitor has given it up."""

    name: str
    lost: bool


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One job and all that it is decided from."""

    job: Job
    pods: tuple[Pod, ...] = ()
    service: Service | None = None
    blocked_writes: tuple[BlockedWrite, ...] = ()
    nodes: Mapping[str, Node] = field(default_factory=lambda: MappingProxyType({}))
    node_count: int | None = None
    """All nodes of the cluster; None if they cannot be read."""
    profile_hash: str | None = None
    """Of the job's profile as it is now; None without one."""
    used_profile_known: bool = True
    """Whether the profile that status names can be used for further pods."""
    progress: Progress | None = None
    """The latest answer of the success pod's /status, if it was asked."""
    recoveries: ReportedRecoveries | None = None
    """The recoveries in place that this answer tells of."""
    created_attempts: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """Attempts, by name, of the pods that this process has created, until status says that they were observed."""
