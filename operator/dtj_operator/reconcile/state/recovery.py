"""The recovery of a job in one pass: the open incident, the counted restarts, and the backoff."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from dtj_operator.api.enums import Charge
from dtj_operator.api.persisted_state import CountedRecoveries, OpenIncident
from dtj_operator.reconcile.state.replicas import read_indexes, read_repeated_ends, write_indexes, write_repeated_ends
from dtj_operator.reconcile.state.trainer_messages import COUNTS_BELOW

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from datetime import datetime, timedelta

    from dtj_operator.api.enums import Reason, Role
    from dtj_operator.api.persisted_state import RepeatedEnds, RootCause
    from dtj_operator.api.status import JobStatus, LastIncident
    from dtj_operator.reconcile.state.replicas import Replica, ReplicaRecord
    from dtj_operator.reconcile.state.snapshot import ReportedRecoveries


RESTART_IN_PLACE = "RestartInPlace"
"""`lastIncident.action` of a restart by the kubelet."""


class FreeRestarts(NamedTuple):
    """The number of free restarts in a row: without a stretch of Running and without a new step."""

    free: int
    limited: int
    """Those of them without evidence of a disruption."""


@dataclass(frozen=True, slots=True)
class RestartDecision:
    """The restart decision for one root cause."""

    charged: bool
    grows_backoff: bool
    """Whether the next restart waits longer."""
    delay: timedelta
    """From the opening of the incident to the action."""
    job_fails: Reason | None = None
    """Why the job fails instead of being restarted."""
    message: str = ""


class Recovery:
    """The failures of a job, and its recovery from them.

    An incident is open while it waits for its action, and from then on until the job is Running.
    """

    __slots__ = (
        "_now",
        "backoff",
        "counted_recoveries",
        "failed",
        "incident",
        "last_incident",
        "last_recovery",
        "repeated_ends",
        "restarts",
        "restarts_by_role",
    )

    def __init__(self, status: JobStatus, now: datetime) -> None:
        """Start from what status remembers."""
        self._now = now
        self.incident: OpenIncident | None = status.persisted_state.incident
        self.failed = read_indexes(self.incident.failed) if self.incident else set()
        """Replicas that failed within the incident. A set while the pass lasts, as thousands may fail at once."""
        self.repeated_ends = read_repeated_ends(status.persisted_state)
        """So many pods of a replica have failed since the job was Running."""
        self.last_incident, self.last_recovery = status.last_incident, status.last_recovery
        self.counted_recoveries = status.persisted_state.counted_recoveries
        """The recoveries in place that are counted of the success pod."""
        self.restarts, self.backoff = status.restarts, status.backoff
        self.restarts_by_role = {role: counts.restarts for role, counts in status.replica_statuses.items()}

    @property
    def waits_to_act(self) -> bool:
        """Whether an incident is open whose action is still to come."""
        return self.incident is not None and self.incident.acted_attempt is None

    @property
    def excused(self) -> bool:
        """Whether the open incident was caused by the cluster, or a failure rule decided it."""
        root = self.incident.root_cause if self.incident else None
        return root is not None and (root.evidence or root.rule is not None)

    def outlived(self, record: ReplicaRecord) -> bool:
        """Return whether the replica's pod is older than the action of the open incident, which did not replace it."""
        acted = self.incident.acted_attempt if self.incident else None
        return acted is not None and record.attempt < acted

    def free_restarts_in_a_row(self, root: RootCause, step: int) -> FreeRestarts:
        """Return the restarts in a row so far; a higher training step than at the last of them ends the row."""
        if max(step, root.step) > self.backoff.step:
            return FreeRestarts(0, 0)
        return FreeRestarts(self.backoff.free, self.backoff.free_limited)

    def correct_clock(self) -> None:
        """Let no incident be opened in the future: the clock was set back, or is another machine's."""
        if self.incident is not None and self.incident.opened_at > self._now:
            self.incident = self.incident.model_copy(update={"opened_at": self._now})

    def add(self, replica: Replica, root: RootCause) -> bool:
        """Add a failure to the incident that waits for its action, or open one. Returns whether it is the likeliest
        root cause so far, which is kept.
        """
        incident = self.incident
        likeliest = True
        if incident is None or not self.waits_to_act:
            self.incident, self.failed = OpenIncident(opened_at=self._now, root_cause=root), set()
        elif (root.rank, root.at) < (incident.root_cause.rank, incident.root_cause.at):
            self.incident = incident.model_copy(update={"root_cause": root})
        else:
            likeliest = False
        self.failed.add(replica)
        return likeliest

    def match_rule(self, rule: int | None) -> None:
        """Remember the failure rule that matches the root cause of the incident."""
        if self.incident is not None and rule is not None:
            root = self.incident.root_cause.model_copy(update={"rule": rule})
            self.incident = self.incident.model_copy(update={"root_cause": root})

    def most_repeated_ends(self) -> int:
        """Return how many pods of one replica of the open incident ended before it, without Running since; the most."""
        return max((self.repeated_ends.get(replica, 0) for replica in self.failed), default=0)

    def count_ends(self, replicas: Iterable[Replica]) -> None:
        """Count the failed pods of these replicas, which are replaced now."""
        for replica in replicas:
            self.repeated_ends[replica] = self.repeated_ends.get(replica, 0) + 1

    def forget_ends(self) -> None:
        """Forget the failed pods: the job is Running."""
        self.repeated_ends.clear()

    def follow(self, replica: Replica) -> None:
        """Add a replica that failed after the action and is replaced within the incident."""
        self.failed.add(replica)
        self.count_ends([replica])
        self.count_replaced(replica.role)

    def act(self, attempt: int) -> None:
        """Remember the attempt of the incident's action, which is taken once."""
        if self.incident is not None:
            self.incident = self.incident.model_copy(update={"acted_attempt": attempt})

    def record(self, root: RootCause, decision: RestartDecision, step: int) -> None:
        """Count a restart, charged or free, and let the backoff grow with it."""
        before, row = self.restarts, self.free_restarts_in_a_row(root, step)
        self.restarts = before.model_copy(
            update={
                "total": before.total + 1,
                "charged": before.charged + decision.charged,
                "by_cause": before.by_cause | {root.cause: before.by_cause.get(root.cause, 0) + 1},
            }
        )
        self.backoff = self.backoff.model_copy(
            update={
                "consecutive": self.backoff.consecutive + decision.grows_backoff,
                "next_attempt_time": None,
                "free": row.free + (not decision.charged),
                "free_limited": row.limited + (root.charge == Charge.FREE_LIMITED),
                "step": max(self.backoff.step, step, root.step),
            }
        )

    def record_scaling(self, root: RootCause, attempt: int) -> None:
        """Count the free restart of running pods that a new size causes."""
        counts = self.restarts.by_cause
        self.restarts = self.restarts.model_copy(
            update={
                "total": self.restarts.total + 1,
                "by_cause": counts | {root.cause: counts.get(root.cause, 0) + 1},
            }
        )
        self.failed = set()
        self.incident = OpenIncident(opened_at=self._now, root_cause=root, acted_attempt=attempt)

    def record_in_place(self, reported: ReportedRecoveries) -> int:
        """Count the recoveries in place of which the success pod tells for the first time. Returns how many."""
        known = self.counted_recoveries
        new = reported.count - (known.count if known and known.uid == reported.pod_uid else 0)
        if new <= 0:
            return 0
        self.counted_recoveries = CountedRecoveries(uid=reported.pod_uid, count=reported.count)
        total = min(self.restarts.in_place + new, COUNTS_BELOW - 1)
        self.restarts = self.restarts.model_copy(update={"in_place": total})
        self.last_recovery = reported.last
        return new

    def count_replaced(self, role: Role, number: int = 1) -> None:
        """Count pods of a role that were replaced, or restarted by the kubelet, because of a failure."""
        self.restarts_by_role[role] = self.restarts_by_role.get(role, 0) + number

    def next_attempt_at(self, due: datetime | None) -> None:
        """Remember when the next attempt begins, if one waits for that."""
        self.backoff = self.backoff.model_copy(update={"next_attempt_time": due})

    def remember(self, incident: LastIncident) -> None:
        """Keep in status what was acted upon, or ended the job."""
        self.last_incident = incident

    def close(self, since: datetime) -> float:
        """End the incident: the job is Running again. Returns the seconds that it took."""
        self.incident = None
        seconds = max(0.0, round((self._now - since).total_seconds(), 3))
        if self.last_incident is not None:
            self.last_incident = self.last_incident.model_copy(
                update={"recovered_at": self._now, "recovery_seconds": seconds}
            )
        return seconds

    def cancel(self) -> None:
        """End the incident without an action, or without a recovery."""
        self.incident, self.failed = None, set()
        self.next_attempt_at(None)

    def reset_backoff(self) -> None:
        """Let the next restart wait, and be free, as if it were the first."""
        self.backoff = self.backoff.model_copy(update={"consecutive": 0, "free": 0, "free_limited": 0})

    def persisted_ends(self, desired: Collection[Replica]) -> dict[Role, tuple[RepeatedEnds, ...]] | None:
        """Return the numbers of failed pods for status, of the replicas that the spec asks for."""
        if not self.repeated_ends:
            return None
        kept = set(desired)
        return write_repeated_ends({one: ends for one, ends in self.repeated_ends.items() if one in kept}) or None

    def persisted_incident(self) -> OpenIncident | None:
        """Return the open incident for status."""
        if self.incident is None:
            return None
        return self.incident.model_copy(update={"failed": write_indexes(self.failed)})
