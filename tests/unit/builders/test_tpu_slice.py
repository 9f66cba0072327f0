"""The pods of a job on a TPU slice: which of them are its hosts, and what a host has."""

from __future__ import annotations

from typing import Any

import pytest

from dtj_operator.builders.pod import build_pod, overridden_fields
from dtj_operator.builders.strategy_choice import choose_strategy
from dtj_operator.reconcile.state.plan import DeletePod
from tests.support.job_builder import UID, JobBuilder, done, failed, job, template

POOLS = [
    ("tpu-v4-podslice", "2x2x2", 4, 2),
    ("tpu-v5-lite-podslice", "1x1", 1, 1),
    ("tpu-v5-lite-podslice", "2x2", 4, 1),
    ("tpu-v5-lite-podslice", "2x4", 8, 1),
    ("tpu-v5-lite-podslice", "4x4", 4, 4),
    ("tpu-v5p-slice", "2x2x2", 4, 2),
    ("tpu-v6e-slice", "4x4", 4, 4),
    ("tpu7x", "2x2x2", 4, 2),
]
"""Accelerator, topology, chips of a host, and hosts of GKE's node pools."""
TOLERATION = {"key": "google.com/tpu", "operator": "Exists", "effect": "NoSchedule"}


def on_slice(topology: str, chips: int, accelerator: str = "tpu-v5-lite-podslice", **roles: Any) -> JobBuilder:
    world = job(**roles)
    world.raw["spec"]["tpu"] = {"accelerator": accelerator, "topology": topology, "chipsPerHost": chips}
    return world


def pod(world: JobBuilder, role: str, index: int = 0) -> dict[str, Any]:
    return build_pod(world.job, role, index, 0)


def environment(built: dict[str, Any]) -> dict[str, str]:
    return {entry["name"]: entry.get("value") for entry in built["spec"]["containers"][0]["env"]}


@pytest.mark.parametrize(("accelerator", "topology", "chips", "hosts"), POOLS)
def test_each_host_asks_for_a_node_of_the_pool_and_all_its_chips(
    accelerator: str, topology: str, chips: int, hosts: int
):
    roles = {"worker": hosts} | ({"chief": 1} if hosts > 1 else {})
    world = on_slice(topology, chips, accelerator, **roles)
    for index in range(hosts):
        built = pod(world, "worker", index)
        assert built["spec"]["nodeSelector"] == {
            "cloud.google.com/gke-tpu-accelerator": accelerator,
            "cloud.google.com/gke-tpu-topology": topology,
        }
        assert built["spec"]["tolerations"] == [TOLERATION]
        asked = {"google.com/tpu": str(chips)}
        assert built["spec"]["containers"][0]["resources"] == {"limits": asked, "requests": asked}
        names = [f"train-worker-{host}.train.team.svc" for host in range(hosts)] if hosts > 1 else ["localhost"]
        found = environment(built)
        assert (found["TPU_WORKER_ID"], found["TPU_WORKER_HOSTNAMES"]) == (str(index), ",".join(names))


@pytest.mark.parametrize("role", ["chief", "evaluator"])
def test_other_pods_run_on_nodes_without_chips(role: str):
    built = pod(on_slice("4x4", 4, chief=1, worker=4, evaluator=1), role)
    assert not {"nodeSelector", "tolerations", "affinity"} & built["spec"].keys()
    assert "resources" not in built["spec"]["containers"][0]
    assert not [name for name in environment(built) if name.startswith("TPU_")]


def test_the_chief_of_a_job_without_workers_is_the_one_host():
    built = pod(on_slice("2x2", 4, chief=1, evaluator=1), "chief")
    assert built["spec"]["containers"][0]["resources"]["limits"] == {"google.com/tpu": "4"}
    assert environment(built)["TPU_WORKER_HOSTNAMES"] == "localhost"


def test_all_hosts_share_a_node_pool_with_no_other_job():
    affinity = pod(on_slice("4x4", 4, chief=1, worker=4), "worker")["spec"]["affinity"]
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    (own,), (others,) = affinity["podAffinity"][required], affinity["podAntiAffinity"][required]
    assert own["topologyKey"] == others["topologyKey"] == "cloud.google.com/gke-nodepool"
    assert own["labelSelector"] == {"matchLabels": {"dtj.dev/job-uid": UID}}
    of_others = others["labelSelector"]["matchExpressions"]
    assert {"key": "dtj.dev/job-uid", "operator": "NotIn", "values": [UID]} in of_others


def test_what_the_template_says_beside_it_is_kept():
    given = template(
        nodeSelector={"disk": "fast", "cloud.google.com/gke-tpu-topology": "8x8"},
        tolerations=[{"key": "a", "operator": "Exists"}],
        affinity={"nodeAffinity": {"a": 1}, "podAffinity": {"b": 2}},
    )
    main = given["spec"]["containers"][0]
    main["resources"] = {"limits": {"memory": "1Gi"}}
    main["env"] = [{"name": name, "value": "mine"} for name in ("TPU_NAME", "TPU_WORKER_ID", "LIBTPU_INIT_ARGS")]
    world = on_slice("4x4", 4, chief=1, worker={"replicas": 4, "template": given})
    built = pod(world, "worker", 1)
    assert built["spec"]["nodeSelector"]["disk"] == "fast"
    assert built["spec"]["tolerations"] == [{"key": "a", "operator": "Exists"}, TOLERATION]
    assert built["spec"]["affinity"]["nodeAffinity"] == {"a": 1}
    assert built["spec"]["affinity"]["podAffinity"]["b"] == 2
    assert built["spec"]["containers"][0]["resources"]["limits"] == {"memory": "1Gi", "google.com/tpu": "4"}
    found = environment(built)
    assert ("TPU_NAME" in found, found["TPU_WORKER_ID"], found["LIBTPU_INIT_ARGS"]) == (False, "1", "mine")
    assert overridden_fields(world.job) == [
        "worker: env TPU_NAME",
        "worker: env TPU_WORKER_ID",
        "worker: nodeSelector cloud.google.com/gke-tpu-topology",
    ]


def test_auto_chooses_tpu_and_says_why():
    choice = choose_strategy(on_slice("4x4", 4, chief=1, worker=4).job.spec)
    assert (choice.type, choice.reason) == ("TPU", "spec.tpu: 4x4, 4 hosts")


def test_a_slice_is_restarted_as_one_with_its_chief():
    world = on_slice("4x4", 4, chief=1, worker=4).running().pod("worker", 2, failed(1)).reconcile().later(1)
    gone = {action.name for action in world.decide().plan.actions if isinstance(action, DeletePod)}
    assert gone == {"train-chief-0", *(f"train-worker-{index}" for index in range(4))}


def test_the_hosts_serve_and_the_chief_ends_the_job():
    world = on_slice("4x4", 4, chief=1, worker=4)
    world.raw["spec"]["successPolicy"] = {"type": "AllWorkers"}
    assert world.running().pod("worker", 0, done()).decide().status.phase != "Succeeded"
    assert world.pod("chief", 0, done()).decide().status.phase == "Succeeded"
