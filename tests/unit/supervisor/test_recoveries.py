"""Recoveries in place, as the pod that the operator asks tells of them."""

from __future__ import annotations

from dtj_trainer.supervisor.membership import Membership
from dtj_trainer.supervisor.restart_policy import Recoveries
from tests.unit.supervisor.test_membership import formed, park, supervisor, talk

WALL = 1_767_268_807.25
"""2026-01-01T12:00:07.250000Z."""


def lose(victim: Membership, *others: Membership, cause: str) -> None:
    """The victim's process ends; the others' end because of that, and all form the next cluster."""
    victim.process_lost(cause)
    talk(victim, *others)
    for other in others:
        other.process_lost()
    park(victim, *others)
    talk(victim, *others)


def test_who_fell_and_why_is_told_by_a_pod_that_only_followed():
    first, second, third = formed(3)
    recoveries = Recoveries(first)
    recoveries.begin("peer-lost", 10.0)
    lose(second, first, third, cause="killed")
    recoveries.end(10.3124, WALL)
    recoveries.end(10.4, WALL)
    last = {
        "time": "2026-01-01T12:00:07.250000Z",
        "seconds": 0.312,
        "cause": "killed",
        "role": "worker",
        "index": 1,
    }
    assert recoveries.status() == {"count": 1, "last": last}
    recoveries.begin("stalled", 20.0)
    lose(first, second, third, cause="stalled")
    recoveries.end(22.0, WALL)
    assert recoveries.status() == {"count": 2, "last": last | {"seconds": 2.0, "cause": "stalled", "index": 0}}


def test_a_process_that_is_lost_again_before_its_first_step_is_part_of_one_recovery():
    alone = supervisor(0, of=1)
    recoveries = Recoveries(alone)
    for now in (1.0, 2.0):
        recoveries.begin("killed", now)
        alone.process_lost("killed")
    recoveries.end(3.0, WALL)
    told = recoveries.status()
    assert told["count"] == 1
    assert told["last"] == {
        "time": "2026-01-01T12:00:07.250000Z",
        "seconds": 2.0,
        "cause": "killed",
        "role": "worker",
        "index": 0,
    }


def test_where_a_new_pod_took_a_peers_place_it_was_no_recovery_in_place():
    first, second = formed(2)
    recoveries = Recoveries(first)
    recoveries.begin("peer-lost", 1.0)
    replaced = supervisor(1, incarnation="b")
    first.process_lost()
    park(first, replaced)
    talk(first, replaced)
    recoveries.end(9.0, WALL)
    assert recoveries.status() == {"count": 0, "last": None}
    assert second.me.cause == ""
