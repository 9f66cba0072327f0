"""The status that the supervisor publishes to the HTTP server at the end of each turn."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from dtj_trainer.cluster.task_mode import TaskMode
from dtj_trainer.cluster.tf_config import Task
from dtj_trainer.supervisor.cluster_start import ClusterStart
from dtj_trainer.supervisor.membership import Member
from dtj_trainer.supervisor.restart_policy import RestartCounter


@dataclass(frozen=True, slots=True)
class SupervisorStatus:
    """A published status; immutable, so that any thread may read it."""

    published_at: float
    """Monotonic seconds; the supervisor is healthy while this is young."""
    phase: str
    progress: Mapping[str, object]
    """The part of /status about the training, by its keys."""
    restarts: int
    recoveries: Mapping[str, object]
    """Those in place, by the keys of /status."""
    ready_until: float
    """Until when the pod is ready (monotonic seconds); -inf while it is not, inf where that does not end by itself."""
    probe: tuple[str, int] | None
    """Host and port; where given, the pod is ready if something listens there."""
    member: Member
    """The member that the peers receive."""
    known: Mapping[Task, Member]
    """What is known of the peers."""
    peers_ready: int
    standby_ready: bool
    training_pid: int | None


def status_body(status: SupervisorStatus) -> dict[str, object]:
    """Return the object of GET /status."""
    return {
        **status.progress,
        "role": status.member.task.role,
        "index": status.member.task.index,
        "attempt": status.member.attempt,
        "job": status.member.job,
        "phase": status.phase,
        "restarts": status.restarts,
        "recoveries": status.recoveries,
    }


def _phase(cluster: ClusterStart) -> str:
    progress, shutdown = cluster.progress, cluster.shutdown
    if shutdown.done:
        return "done"
    if shutdown.stopping:
        return "leaving"
    if cluster.process is None or not cluster.process.started:
        return "restarting" if cluster.has_run else "waiting"
    if progress.serving:
        return "serving"
    return progress.phase or ("training" if progress.stepped else "starting")


def _readiness(cluster: ClusterStart) -> tuple[float, tuple[str, int] | None]:
    """Return until when the pod is ready, and what to probe for a program that reports no steps."""
    progress, shutdown = cluster.progress, cluster.shutdown
    if shutdown.done:
        return math.inf, None
    if cluster.process is None or not cluster.process.started or shutdown.stopping:
        return -math.inf, None
    if cluster.mode is TaskMode.SERVER:
        return math.inf if progress.serving else -math.inf, None
    if cluster.order.uses_dtj or progress.managed:
        return progress.ready_until, None
    if not cluster.collective:
        return math.inf, None
    return -math.inf, cluster.probe


def current_status(cluster: ClusterStart, restarts: RestartCounter, now: float) -> SupervisorStatus:
    """Return the status at the end of a turn."""
    membership, standby, process = cluster.membership, cluster.standby, cluster.process
    ready_until, probe = _readiness(cluster)
    return SupervisorStatus(
        published_at=now,
        phase=_phase(cluster),
        progress=cluster.progress.status(),
        restarts=restarts.total,
        recoveries=restarts.recoveries.status(),
        ready_until=ready_until,
        probe=probe,
        member=membership.me,
        known=dict(membership.known),
        peers_ready=len(membership.peers) - len(cluster.missing()),
        standby_ready=standby is not None and standby.ready,
        training_pid=process.pid if process else None,
    )
