"""Jobs on TPU slices meet nodes with GKE's labels, taints and chips, and the real scheduler."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.cluster.control_plane import ControlPlane
from tests.contract.operator_under_test import Jobs, operator
from tests.support.gke_nodes import gke_node, nodes

pytestmark = [pytest.mark.contract, pytest.mark.timeout(300)]

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
POOL = "cloud.google.com/gke-nodepool"
POOLS = {"slice-a": ("4x4", 4, 4), "slice-b": ("4x4", 4, 4), "one-host": ("2x4", 1, 8)}
"""Topology, hosts, and chips of a host."""


def tpu_node(pool: str, number: int, topology: str, chips: int) -> dict[str, Any]:
    labels = {
        POOL: pool,
        "cloud.google.com/gke-tpu-accelerator": "tpu-v5-lite-podslice",
        "cloud.google.com/gke-tpu-topology": topology,
    }
    return gke_node(f"{pool}-{number}", labels, {"google.com/tpu": chips})


@pytest.fixture(scope="module")
def jobs(strict_control_plane: ControlPlane, account: Path) -> Iterator[Jobs]:
    hosts_of_pools = [
        tpu_node(pool, number, topology, chips)
        for pool, (topology, hosts, chips) in POOLS.items()
        for number in range(hosts)
    ]
    found = Jobs(strict_control_plane, "slices")
    with nodes(strict_control_plane.api, hosts_of_pools), operator(account, "--no-progress", "--namespace=slices"):
        yield found
        found.delete_all()


def create(jobs: Jobs, name: str, topology: str, chips: int, **replicas: int) -> None:
    template = {"spec": {"containers": [{"name": "tensorflow", "image": "example.org/train:1"}]}}
    roles = {role: {"replicas": count, "template": template} for role, count in replicas.items()}
    tpu = {"accelerator": "tpu-v5-lite-podslice", "topology": topology, "chipsPerHost": chips}
    jobs.create_spec(name, {"tpu": tpu, "replicaSpecs": roles})


def pools(jobs: Jobs, name: str, role: str) -> list[str]:
    """Return the pools of the nodes of a role's pods; `fake` for nodes that are in none."""
    return [
        (pod["spec"].get("nodeName") or "").rpartition("-")[0]
        for pod in jobs.pods().values()
        if pod["metadata"]["labels"]["dtj.dev/job-name"] == name and pod["metadata"]["labels"]["dtj.dev/role"] == role
    ]


def test_two_slices_take_a_node_pool_each_and_their_chiefs_a_node_without_chips(jobs: Jobs):
    example = yaml.safe_load((EXAMPLES / "digits-tpu-slice.yaml").read_text())["spec"]
    del example["checkpoint"]  # there is no claim here
    jobs.create_spec("first", example)
    create(jobs, "second", "4x4", 4, chief=1, worker=4)
    jobs.until(lambda: all(jobs.holds(name, "Running") for name in ("first", "second")), "two running jobs")
    workers = [pools(jobs, name, "worker") for name in ("first", "second")]
    assert sorted(workers) == [["slice-a"] * 4, ["slice-b"] * 4]
    assert pools(jobs, "first", "chief") + pools(jobs, "second", "chief") == ["fake", "fake"]
    assert jobs.status("first")["strategy"] == {"type": "TPU", "reason": "spec.tpu: 4x4, 4 hosts"}


def test_a_slice_of_one_host_takes_the_node_with_all_its_chips(jobs: Jobs):
    create(jobs, "single", "2x4", 8, worker=1)
    jobs.until(lambda: jobs.holds("single", "Running"), "a running job")
    assert pools(jobs, "single", "worker") == ["one-host"]


def test_a_slice_that_no_node_pool_has_is_told_on_the_job(jobs: Jobs):
    create(jobs, "nowhere", "8x8", 8, chief=1, worker=8)
    jobs.until(lambda: "didn't match" in jobs.status("nowhere").get("message", ""), "the scheduler's words")
    (running,) = (one for one in jobs.status("nowhere")["conditions"] if one["type"] == "Running")
    assert (running["status"], running["reason"]) == ("False", "Unschedulable")


def test_a_job_without_a_slice_stays_away_from_tpu_nodes(jobs: Jobs):
    jobs.create("plain", worker=6)
    jobs.until(lambda: jobs.holds("plain", "Running"), "a running job")
    assert pools(jobs, "plain", "worker") == ["fake"] * 6
