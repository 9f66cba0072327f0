"""The replicas of a job, and what is remembered of each.

A replica is a role and an index. For each one status keeps which attempt its pod has to be of (an
older pod is ours to delete), whether that pod has been observed (then its absence is a failure, not
a beginning), and how often the kubelet has restarted its container. Kept as ranges: a job of a
thousand workers needs one line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dtj_operator.api.enums import RestartPolicy, Role
from dtj_operator.api.persisted_state import RepeatedEnds, ReplicaGroup
from dtj_operator.builders.metadata import pod_name
from dtj_operator.reconcile.state.index_ranges import format_ranges, parse_ranges

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from dtj_operator.api.job import Job
    from dtj_operator.api.persisted_state import EvaluatorRestart, PersistedState
    from dtj_operator.api.spec import JobSpec


class Replica(NamedTuple):
    """One place for one pod."""

    role: Role
    index: int  # type: ignore[assignment]  # the API's word for it; tuple.index is not used

    def __str__(self) -> str:
        return f"{self.role}-{self.index}"


class ReplicaRecord(NamedTuple):
    """The persisted state of one replica."""

    attempt: int
    """Attempt that its pod has to be of."""
    observed: bool
    """Whether that pod has been seen to exist."""
    container_restarts: int = 0
    """Restarts of its main container by the kubelet that are counted."""


class Replicas:
    """The replicas that the spec asks for, those that exist, and those that are completed."""

    __slots__ = (
        "_job_name",
        "_records_before",
        "_spec",
        "attempt",
        "completed",
        "desired",
        "evaluator_restarts",
        "records",
    )

    def __init__(self, job: Job) -> None:
        """Start from what status remembers."""
        self._job_name, self._spec = job.name, job.spec
        self._records_before = read_records(job.status.persisted_state)
        self.attempt = job.status.attempt
        self.desired = desired_replicas(job.spec)
        self.records = dict(self._records_before)
        self.completed = {Replica(role, index) for role, indexes in job.status.completed.items() for index in indexes}
        """Those that are done and never run again."""
        self.evaluator_restarts = {one.index: one for one in job.status.persisted_state.evaluators}
        """By index of the evaluator."""

    @property
    def changed(self) -> bool:
        """Whether any record differs from what status remembers."""
        return self.records != self._records_before

    @property
    def resized(self) -> bool:
        """Whether the spec asks for other replicas than the job runs with."""
        return self.records.keys() != set(self.desired)

    @property
    def shrinks(self) -> bool:
        """Whether the spec asks for fewer replicas than the job runs with."""
        return bool(self.records.keys() - set(self.desired))

    @property
    def success_replica(self) -> Replica | None:
        """The replica whose success is the job's: the chief, or worker 0 where there is none."""
        for role in (Role.CHIEF, Role.WORKER):
            if self._spec.replicas(role):
                return Replica(role, 0)
        return None

    def pod_name(self, replica: Replica) -> str:
        """Return the name of a replica's pod."""
        return pod_name(self._job_name, replica.role, replica.index)

    def restart_policy(self, replica: Replica) -> RestartPolicy:
        """Return the restart policy of a replica's role."""
        spec = self._spec.replica_specs.get(replica.role)
        return spec.restart_policy if spec else RestartPolicy.ON_FAILURE

    def observe(self, replica: Replica, attempt: int) -> None:
        """Remember that the replica's pod exists or has existed, and of which attempt it is; none above the job's."""
        self.records[replica] = self.records[replica]._replace(attempt=min(attempt, self.attempt), observed=True)

    def complete(self, replica: Replica) -> None:
        """Remember that the replica is done: it never runs again."""
        self.completed.add(replica)

    def next_attempt(self) -> None:
        """Begin a new attempt: pods that are created or replaced from now on are of it."""
        self.attempt += 1

    def start(self) -> None:
        """Ask for a pod for every replica that the spec asks for."""
        self.records = {replica: ReplicaRecord(self.attempt, observed=False) for replica in self.desired}

    def clear(self) -> None:
        """Ask for no pods, and forget what there was. Completed replicas stay completed."""
        self.records, self.evaluator_restarts = {}, {}

    def renew(self, replicas: Iterable[Replica]) -> None:
        """Ask for new pods, of the current attempt."""
        for replica in replicas:
            self.records[replica] = ReplicaRecord(self.attempt, observed=False)

    def resize(self) -> None:
        """Ask for the replicas of the spec: no others, and new ones of the current attempt."""
        desired = dict.fromkeys(self.desired)
        self.records = {replica: record for replica, record in self.records.items() if replica in desired}
        for replica in desired:
            self.records.setdefault(replica, ReplicaRecord(self.attempt, observed=False))
        evaluators = self._spec.replicas(Role.EVALUATOR)
        self.evaluator_restarts = {
            index: restart for index, restart in self.evaluator_restarts.items() if index < evaluators
        }

    def count_container_restarts(self, replica: Replica, total: int) -> int:
        """Remember how often the kubelet has restarted a container. Returns how many restarts are new."""
        record = self.records[replica]
        new = total - record.container_restarts
        if new > 0:
            self.records[replica] = record._replace(container_restarts=total)
        return max(new, 0)

    def keep_evaluator_restart(self, restart: EvaluatorRestart) -> None:
        """Remember the last failure of an evaluator."""
        self.evaluator_restarts[restart.index] = restart


def desired_replicas(spec: JobSpec) -> list[Replica]:
    """Return every replica the spec asks for, by role and index."""
    return [
        Replica(role, index)
        for role in Role
        if role in spec.replica_specs
        for index in range(spec.replica_specs[role].replicas)
    ]


def observed_pods(job: Job) -> Iterator[str]:
    """Yield the names of the pods that have been observed and are not completed."""
    done = {(role, index) for role, indexes in job.status.completed.items() for index in indexes}
    for role, groups in job.status.persisted_state.replicas.items():
        for group in groups:
            for index in parse_ranges(group.observed):
                if (role, index) not in done:
                    yield pod_name(job.name, role, index)


def read_records(persisted: PersistedState) -> dict[Replica, ReplicaRecord]:
    """Return the records as status keeps them."""
    records: dict[Replica, ReplicaRecord] = {}
    for role, groups in persisted.replicas.items():
        restarts = persisted.container_restarts.get(role, {})
        for group in groups:
            observed = set(parse_ranges(group.observed))
            for index in parse_ranges(group.indexes):
                records[Replica(role, index)] = ReplicaRecord(group.attempt, index in observed, restarts.get(index, 0))
    return records


def write_records(records: Mapping[Replica, ReplicaRecord]) -> dict[Role, tuple[ReplicaGroup, ...]]:
    """Return attempts and observed pods for status: by role, then by attempt."""
    grouped: dict[Role, dict[int, tuple[list[int], list[int]]]] = {}
    for replica, record in records.items():
        indexes, observed = grouped.setdefault(replica.role, {}).setdefault(record.attempt, ([], []))
        indexes.append(replica.index)
        if record.observed:
            observed.append(replica.index)
    return {
        role: tuple(
            ReplicaGroup(attempt=attempt, indexes=format_ranges(indexes), observed=format_ranges(observed))
            for attempt, (indexes, observed) in sorted(grouped[role].items())
        )
        for role in Role
        if role in grouped
    }


def write_container_restarts(records: Mapping[Replica, ReplicaRecord]) -> dict[Role, dict[int, int]]:
    """Return the counted container restarts for status, by role and index."""
    counts: dict[Role, dict[int, int]] = {}
    for replica, record in sorted(records.items()):
        if record.container_restarts:
            counts.setdefault(replica.role, {})[replica.index] = record.container_restarts
    return counts


def read_repeated_ends(persisted: PersistedState) -> dict[Replica, int]:
    """Return how many pods of a replica have failed since the job was Running."""
    return {
        Replica(role, index): group.ends
        for role, groups in (persisted.repeated_ends or {}).items()
        for group in groups
        for index in parse_ranges(group.indexes)
    }


def write_repeated_ends(ends: Mapping[Replica, int]) -> dict[Role, tuple[RepeatedEnds, ...]]:
    """Return those numbers for status: by role, then by number."""
    grouped: dict[Role, dict[int, list[int]]] = {}
    for replica, number in ends.items():
        grouped.setdefault(replica.role, {}).setdefault(number, []).append(replica.index)
    return {
        role: tuple(
            RepeatedEnds(ends=number, indexes=format_ranges(indexes))
            for number, indexes in sorted(grouped[role].items())
        )
        for role in Role
        if role in grouped
    }


def read_indexes(ranges: Mapping[Role, str]) -> set[Replica]:
    """Return replicas that are written as ranges by role."""
    return {Replica(role, index) for role, text in ranges.items() for index in parse_ranges(text)}


def write_indexes(replicas: Iterable[Replica]) -> dict[Role, str]:
    """Return replicas as ranges by role."""
    grouped: dict[Role, list[int]] = {}
    for replica in replicas:
        grouped.setdefault(replica.role, []).append(replica.index)
    return {role: format_ranges(grouped[role]) for role in Role if role in grouped}
