"""Slots: the places of a job that a pod can fill, and what is remembered of each.

A slot is a role and an index. For each one status keeps which attempt its pod has to be of (an
older pod is ours to delete) and whether that pod has been seen (then its absence is a failure,
not a beginning). Kept as ranges: a job of a thousand workers needs one line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dtj_operator.api.enums import Role
from dtj_operator.api.status import SlotGroup
from dtj_operator.reconcile.state.index_ranges import format_ranges, parse_ranges

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from dtj_operator.api.spec import JobSpec
    from dtj_operator.reconcile.state.scope import Draft


class Slot(NamedTuple):
    """One place for one pod."""

    role: Role
    index: int  # type: ignore[assignment]  # the API's word for it; tuple.index is not used

    def __str__(self) -> str:
        return f"{self.role}-{self.index}"


class SlotRecord(NamedTuple):
    """What is remembered of a slot."""

    attempt: int
    seen: bool


def wanted_slots(spec: JobSpec) -> list[Slot]:
    """Every slot the spec asks for, by role and index."""
    return [
        Slot(role, index)
        for role in Role
        if role in spec.replica_specs
        for index in range(spec.replica_specs[role].replicas)
    ]


def read_slots(groups: Mapping[Role, tuple[SlotGroup, ...]]) -> dict[Slot, SlotRecord]:
    """The records as status keeps them."""
    records: dict[Slot, SlotRecord] = {}
    for role, lines in groups.items():
        for line in lines:
            seen = set(parse_ranges(line.seen))
            for index in parse_ranges(line.indexes):
                records[Slot(role, index)] = SlotRecord(line.attempt, index in seen)
    return records


def write_slots(records: Mapping[Slot, SlotRecord]) -> dict[Role, tuple[SlotGroup, ...]]:
    """The records for status: by role, then by attempt."""
    grouped: dict[Role, dict[int, tuple[list[int], list[int]]]] = {}
    for slot, record in records.items():
        indexes, seen = grouped.setdefault(slot.role, {}).setdefault(record.attempt, ([], []))
        indexes.append(slot.index)
        if record.seen:
            seen.append(slot.index)
    return {
        role: tuple(
            SlotGroup(attempt=attempt, indexes=format_ranges(indexes), seen=format_ranges(seen))
            for attempt, (indexes, seen) in sorted(grouped[role].items())
        )
        for role in Role
        if role in grouped
    }


def read_indexes(ranges: Mapping[Role, str]) -> set[Slot]:
    """Slots written as ranges by role."""
    return {Slot(role, index) for role, text in ranges.items() for index in parse_ranges(text)}


def write_indexes(slots: Iterable[Slot]) -> dict[Role, str]:
    """Slots as ranges by role."""
    grouped: dict[Role, list[int]] = {}
    for slot in slots:
        grouped.setdefault(slot.role, []).append(slot.index)
    return {role: format_ranges(grouped[role]) for role in Role if role in grouped}


def success_slot(draft: Draft) -> Slot | None:
    """The pod whose success is the job's: the chief, or worker 0 where there is none."""
    for role in (Role.CHIEF, Role.WORKER):
        if draft.spec.replicas(role):
            return Slot(role, 0)
    return None
