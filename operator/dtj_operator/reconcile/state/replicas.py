"""The replicas of a job, and what is remembered of each.

A replica is a role and an index. For each one status keeps which attempt its pod has to be of (an
older pod is ours to delete) and whether that pod has been seen (then its absence is a failure,
not a beginning). Kept as ranges: a job of a thousand workers needs one line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dtj_operator.api.enums import Role
from dtj_operator.api.persisted_state import ReplicaGroup
from dtj_operator.reconcile.state.index_ranges import format_ranges, parse_ranges

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from dtj_operator.api.spec import JobSpec
    from dtj_operator.reconcile.state.scope import ReconcileScope


class Replica(NamedTuple):
    """One place for one pod."""

    role: Role
    index: int  # type: ignore[assignment]  # the API's word for it; tuple.index is not used

    def __str__(self) -> str:
        return f"{self.role}-{self.index}"


class ReplicaRecord(NamedTuple):
    """What is remembered of a replica."""

    attempt: int
    observed: bool


def desired_replicas(spec: JobSpec) -> list[Replica]:
    """Every replica the spec asks for, by role and index."""
    return [
        Replica(role, index)
        for role in Role
        if role in spec.replica_specs
        for index in range(spec.replica_specs[role].replicas)
    ]


def read_records(groups: Mapping[Role, tuple[ReplicaGroup, ...]]) -> dict[Replica, ReplicaRecord]:
    """The records as status keeps them."""
    records: dict[Replica, ReplicaRecord] = {}
    for role, lines in groups.items():
        for line in lines:
            seen = set(parse_ranges(line.observed))
            for index in parse_ranges(line.indexes):
                records[Replica(role, index)] = ReplicaRecord(line.attempt, index in seen)
    return records


def write_records(records: Mapping[Replica, ReplicaRecord]) -> dict[Role, tuple[ReplicaGroup, ...]]:
    """The records for status: by role, then by attempt."""
    grouped: dict[Role, dict[int, tuple[list[int], list[int]]]] = {}
    for replica, record in records.items():
        indexes, seen = grouped.setdefault(replica.role, {}).setdefault(record.attempt, ([], []))
        indexes.append(replica.index)
        if record.observed:
            seen.append(replica.index)
    return {
        role: tuple(
            ReplicaGroup(attempt=attempt, indexes=format_ranges(indexes), observed=format_ranges(seen))
            for attempt, (indexes, seen) in sorted(grouped[role].items())
        )
        for role in Role
        if role in grouped
    }


def read_indexes(ranges: Mapping[Role, str]) -> set[Replica]:
    """Slots written as ranges by role."""
    return {Replica(role, index) for role, text in ranges.items() for index in parse_ranges(text)}


def write_indexes(slots: Iterable[Replica]) -> dict[Role, str]:
    """Slots as ranges by role."""
    grouped: dict[Role, list[int]] = {}
    for replica in slots:
        grouped.setdefault(replica.role, []).append(replica.index)
    return {role: format_ranges(grouped[role]) for role in Role if role in grouped}


def success_replica(scope: ReconcileScope) -> Replica | None:
    """The pod whose success is the job's: the chief, or worker 0 where there is none."""
    for role in (Role.CHIEF, Role.WORKER):
        if scope.spec.replicas(role):
            return Replica(role, 0)
    return None
