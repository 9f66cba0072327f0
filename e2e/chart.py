"""Installs the operator as users do: the committed chart, by the real helm."""

import json
import subprocess
from pathlib import Path
from typing import Any

from e2e.cluster import Cluster, binaries
from e2e.failure import Failure

CHART = Path(__file__).resolve().parent.parent / "charts" / "dtj-operator"
NAMESPACE = "dtj-system"
RELEASE = "dtj-operator"


def install(cluster: Cluster, image: str, seconds: int = 90, *, chart: Path = CHART) -> None:
    """Install the release, or bring it to this chart, and wait until the operator is ready.

    `image` is `repository:tag` as the nodes know it. Raises Failure with helm's own words.
    """
    repository, _, tag = image.rpartition(":")
    place = ["--namespace", NAMESPACE, "--create-namespace"]
    values = ["--set-string", f"image.repository={repository}", "--set-string", f"image.tag={tag}"]
    patience = ["--wait", "--timeout", f"{seconds}s"]
    done = _helm(cluster, "upgrade", "--install", RELEASE, str(chart), *place, *values, *patience)
    if done.returncode != 0:
        raise Failure(
            f"helm could not install the chart {chart}: {_last_line(done)}. Look at "
            f"`kubectl --kubeconfig {cluster.kubeconfig} -n {NAMESPACE} get pods,events`."
        )


def run_tests(cluster: Cluster) -> str:
    """Run the release's tests; returns the log of their pod. Raises Failure with helm's own words."""
    arguments = ("--namespace", NAMESPACE, "--timeout", "90s", "--logs")
    done = _helm(cluster, "test", RELEASE, *arguments)
    if done.returncode != 0:
        raise Failure(f"helm's test of the release {RELEASE} failed: {_last_line(done)}. It said: {done.stdout}")
    return done.stdout


def installed(cluster: Cluster) -> dict[str, Any] | None:
    """Return the release of `helm status`: `info`, and its values as `config`. None where there is none.

    Raises Failure with helm's own words.
    """
    done = _helm(cluster, "status", RELEASE, "--namespace", NAMESPACE, "--output", "json")
    if done.returncode == 0:
        release: dict[str, Any] = json.loads(done.stdout)
        return release
    if "release: not found" in done.stderr:
        return None
    raise Failure(f"helm could not look for the release {RELEASE} in namespace {NAMESPACE}: {_last_line(done)}.")


def _helm(cluster: Cluster, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(binaries.path("helm")), "--kubeconfig", str(cluster.kubeconfig), *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True)


def _last_line(done: subprocess.CompletedProcess[str]) -> str:
    words = (done.stderr or done.stdout).strip().splitlines()
    return words[-1] if words else "no output"
