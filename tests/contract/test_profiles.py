"""Jobs name the profiles that the chart brings for GKE, and meet its nodes and the real scheduler."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from dtj_operator.cache.profiles import FRESH_SECONDS
from e2e.cluster.control_plane import ControlPlane
from tests.contract.operator_under_test import Jobs, operator
from tests.support.chart import CHART, OPERATOR_NAMESPACE, RIGHTS, apply
from tests.support.gke_nodes import gke_node, nodes

pytestmark = [pytest.mark.contract, pytest.mark.timeout(300)]

VALUES = CHART / "values-gke.yaml"
ACCELERATOR = "cloud.google.com/gke-accelerator"
PROFILES = yaml.safe_load(VALUES.read_text())["profiles"]
CONFIG_MAP = f"/api/v1/namespaces/{OPERATOR_NAMESPACE}/configmaps/dtj-operator-profiles"


NODES = {
    name: gke_node(
        f"{name}-0",
        profile["spec"]["nodeSelector"],
        profile.get("mainContainer", {}).get("resources", {}).get("limits", {}),
    )
    for name, profile in PROFILES.items()
    if name != "nvidia-tesla-a100"  # nobody made that pool
}


@pytest.fixture(scope="module")
def jobs(strict_control_plane: ControlPlane, account: Path) -> Iterator[Jobs]:
    apply(strict_control_plane, kinds=(*RIGHTS, "ConfigMap"), values=VALUES)
    found = Jobs(strict_control_plane, "profiles")
    with (
        nodes(strict_control_plane.api, NODES.values()),
        operator(account, "--no-progress", "--namespace=profiles", "--profiles=dtj-operator-profiles"),
    ):
        yield found
        found.delete_all()


def node_of(jobs: Jobs, pod: str) -> str:
    return str(jobs.pods()[pod]["spec"].get("nodeName"))


@pytest.mark.parametrize("profile", NODES)
def test_a_job_with_a_profile_lands_where_it_should(jobs: Jobs, profile: str):
    jobs.create(profile, worker=1, profile=profile)
    jobs.until(lambda: jobs.holds(profile, "Running"), "a running job")
    assert node_of(jobs, f"{profile}-worker-0") == NODES[profile]["metadata"]["name"]
    assert jobs.status(profile)["profileHash"]


def test_a_job_without_a_profile_stays_away_from_those_nodes(jobs: Jobs):
    jobs.create("plain", worker=4)
    jobs.until(lambda: jobs.holds("plain", "Running"), "a running job")
    assert all(node_of(jobs, f"plain-worker-{index}").startswith("fake-") for index in range(4))
    assert "profileHash" not in jobs.status("plain")


def test_a_profile_whose_nodes_do_not_exist_is_told_on_the_job(jobs: Jobs):
    jobs.create("nowhere", worker=1, profile="nvidia-tesla-a100")
    jobs.until(lambda: "didn't match" in jobs.status("nowhere").get("message", ""), "the scheduler's words")


def test_an_unknown_profile_makes_the_job_invalid_until_there_is_one(jobs: Jobs):
    jobs.create("later", worker=1, profile="new")
    jobs.until(lambda: jobs.holds("later", "Invalid", "BadProfile"), "an invalid job")
    assert "there is no profile new in the ConfigMap dtj-operator-profiles" in jobs.status("later")["message"]
    assert "later-worker-0" not in jobs.pods()
    jobs.api.patch(CONFIG_MAP, {"data": {"new": "metadata: {labels: {made: first}}"}})
    jobs.until(lambda: "later-worker-0" in jobs.pods(), "a pod")
    assert jobs.pods()["later-worker-0"]["metadata"]["labels"]["made"] == "first"
    assert not jobs.holds("later", "Invalid")


def test_all_pods_of_an_attempt_have_the_same_profile(jobs: Jobs):
    jobs.api.patch(CONFIG_MAP, {"data": {"changing": "metadata: {labels: {made: first}}"}})
    backoff = {"initialSeconds": 0}
    jobs.create("changing", worker=2, scheduler="nobody", profile="changing", failurePolicy={"backoff": backoff})
    jobs.until(lambda: {"changing-worker-0", "changing-worker-1"} <= jobs.pods().keys(), "both pods")
    first = jobs.status("changing")["profileHash"]
    jobs.api.patch(CONFIG_MAP, {"data": {"changing": "metadata: {labels: {made: second}}"}})
    for name in ("changing-worker-0", "changing-worker-1"):
        jobs.start_pod(name)
    jobs.until(lambda: jobs.holds("changing", "Running"), "a running job")
    assert jobs.status("changing")["profileHash"] == first
    time.sleep(FRESH_SECONDS)
    jobs.end_pod("changing-worker-1", 137)

    def labels() -> list[str]:
        found = jobs.pods()
        both = (found.get("changing-worker-0"), found.get("changing-worker-1"))
        return [pod["metadata"]["labels"]["made"] if pod else "" for pod in both]

    jobs.until(lambda: labels() == ["first", "second"], "a pod with the changed profile")
    assert jobs.status("changing")["profileHash"] != first
