"""A node whose kubelet rejects the pods of one replica again and again is avoided by the next ones."""

from __future__ import annotations

import pytest

from dtj_operator.reconcile.state.plan import CreatePod
from tests.support.job_builder import JobBuilder, evicted, failed, job, ready

REJECTED = evicted("UnexpectedAdmissionError")


def avoided(world: JobBuilder) -> dict[str, tuple[str, ...]]:
    """Run passes until a pod is created. Returns the nodes that each new pod avoids."""
    for _ in range(4):
        outcome = world.act()
        created = {f"{one.role}-{one.index}": one.avoid for one in outcome.plan.actions if isinstance(one, CreatePod)}
        if created:
            return created
        world.later(301)
    raise AssertionError("no pod was created")


def reject(world: JobBuilder, *nodes: str, role: str = "worker", index: int = 1) -> tuple[str, ...]:
    """Let these nodes reject the replica's pods. Returns what the last new pod avoids."""
    found: tuple[str, ...] = ()
    for node in nodes:
        world.pod(role, index, {"node": node}, REJECTED)
        found = avoided(world)[f"{role}-{index}"]
    return found


def world(nodes: int | None = 8, **roles: int) -> JobBuilder:
    made = job(**(roles or {"worker": 2})).running()
    made.node_count = nodes
    return made


def test_after_three_rejections_in_a_row_the_next_pods_prefer_other_nodes_and_the_message_names_the_node():
    one = world()
    assert reject(one, "bad", "bad") == ()
    assert "bad" not in one.status.message
    assert reject(one, "bad") == ("bad",)
    assert "Node bad rejects its pods again and again; the next ones prefer other nodes." in one.status.message
    # Whatever ends the next pod: it is avoided until the job is Running.
    one.pod("worker", 1, {"node": "good"}, failed(1))
    assert avoided(one) == {"worker-1": ("bad",)}
    # Other replicas may run there.
    one.pod("worker", 0, {"node": "good"}, failed(1))
    assert avoided(one) == {"worker-0": ()}
    one.each(ready()).reconcile()
    assert one.holds("Running")
    assert "bad" not in one.status.message
    assert "rejections" not in one.raw["status"]["ledger"]
    assert reject(one, "bad") == ()


def test_rejections_by_several_nodes_are_no_row_and_a_second_node_is_avoided_too():
    one = world()
    assert reject(one, "bad", "bad", "good", "bad", "bad") == ()
    assert reject(one, "bad", "worse", "worse", "worse") == ("bad", "worse")


@pytest.mark.parametrize(("nodes", "most"), [(None, 1), (1, 0), (2, 1), (3, 1), (4, 2), (200, 32)])
def test_at_most_half_of_all_nodes_are_avoided(nodes: int | None, most: int):
    one = world(nodes)
    one.raw["spec"]["failurePolicy"] = {"maxRestarts": 10_000}
    found: tuple[str, ...] = ()
    for number in range(40 if most > 2 else 4):
        found = reject(one, *[f"bad-{number:02}"] * 3)
    assert len(found) == most
    assert len(str(one.raw["status"]["ledger"]["rejections"])) < 5000


def test_an_evaluator_avoids_the_node_too_until_it_runs_though_the_job_is_running():
    one = world(worker=1, evaluator=1)
    assert reject(one, "bad", "bad", "bad", role="evaluator", index=0) == ("bad",)
    assert one.holds("Running")
    one.each(ready()).reconcile()
    assert "rejections" not in one.raw["status"]["ledger"]


def test_an_eviction_is_no_rejection():
    one = world()
    for _ in range(4):
        one.pod("worker", 1, {"node": "full"}, evicted("Evicted"))
        assert avoided(one) == {"worker-1": ()}
