"""The commands of docs/howto/operate.md that install, upgrade, roll back and uninstall, with the real helm."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator

import pytest

from e2e.cluster import binaries
from e2e.cluster.api_client import ApiError
from e2e.cluster.control_plane import ControlPlane, start_control_plane
from e2e.previous_version import CHART as PREVIOUS
from tests.contract.operator_under_test import Jobs
from tests.support.chart import CHART, wait_established
from tests.support.monitoring import DOCS

pytestmark = [pytest.mark.contract, pytest.mark.timeout(300)]

NAMESPACE = "by-helm"
DASHBOARDS = "configmap/dtj-operator-dashboards"


@pytest.fixture
def control_plane() -> Iterator[ControlPlane]:
    """Start an API server of its own: the chart's roles, which are gone at the end, are what other tests use."""
    with start_control_plane() as running:
        yield running


def test_jobs_and_their_kind_outlive_upgrade_rollback_and_uninstall(control_plane: ControlPlane):
    def helm(*arguments: str) -> None:
        command = [str(binaries.path("helm")), "--kubeconfig", str(control_plane.kubeconfig), *arguments]
        done = subprocess.run([*command, "--namespace", NAMESPACE], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    def names(kind: str) -> list[str]:
        return control_plane.kubectl("get", kind, "-o", "name", "-n", NAMESPACE).split()

    def has_job() -> bool:
        """Tell whether the job is there; a server whose CRD has just changed refuses to say so for a moment."""
        try:
            return jobs.names() == ["train"]
        except ApiError:
            return False

    reset = "--reset-then-reuse-values"
    helm("install", "dtj-operator", str(PREVIOUS), "--create-namespace", "--set", "replicas=2")
    wait_established(control_plane.api)
    jobs = Jobs(control_plane, NAMESPACE)
    jobs.create("train")
    helm("upgrade", "dtj-operator", str(CHART), reset, "--set", "metrics.dashboards.enabled=true")
    assert names("pdb") == ["poddisruptionbudget.policy/dtj-operator"]
    assert DASHBOARDS in names("configmaps")
    helm("rollback", "dtj-operator")
    assert DASHBOARDS not in names("configmaps")
    helm("upgrade", "dtj-operator", str(CHART), reset)
    helm("upgrade", "dtj-operator", str(PREVIOUS), reset, "--set", "crds.install=false")
    jobs.until(has_job, "the job, still there")
    helm("upgrade", "dtj-operator", str(CHART), reset, "--set", "crds.install=true", "--take-ownership")
    assert names("pdb") == ["poddisruptionbudget.policy/dtj-operator"]
    helm("uninstall", "dtj-operator")
    assert names("deployments") == []
    jobs.until(has_job, "the job, still there")


@pytest.mark.parametrize("verb", ["upgrade", "rollback", "uninstall", "test"])
def test_the_page_has_the_commands(verb: str):
    assert re.search(rf"^helm {verb} dtj-operator ", (DOCS / "howto" / "operate.md").read_text(), re.MULTILINE)
