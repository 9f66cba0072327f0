"""The operator installed as people install it: the committed chart, by the real helm."""

import subprocess
from pathlib import Path

from e2e.cluster import Cluster, binaries
from e2e.failure import Failure

CHART = Path(__file__).resolve().parent.parent / "charts" / "dtj-operator"
NAMESPACE = "dtj-system"
RELEASE = "dtj-operator"


def install(cluster: Cluster, image: str, seconds: int = 90) -> None:
    """Install or upgrade the release, and wait until the operator is ready.

    `image` is `repository:tag` as the nodes know it. Raises Failure with helm's own words.
    """
    repository, _, tag = image.rpartition(":")
    place = ["--namespace", NAMESPACE, "--create-namespace"]
    values = ["--set-string", f"image.repository={repository}", "--set-string", f"image.tag={tag}"]
    patience = ["--wait", "--timeout", f"{seconds}s"]
    _helm(cluster, ["upgrade", "--install", RELEASE, str(CHART), *place, *values, *patience])


def uninstall(cluster: Cluster) -> None:
    _helm(cluster, ["uninstall", RELEASE, "--namespace", NAMESPACE, "--wait", "--ignore-not-found"])


def _helm(cluster: Cluster, arguments: list[str]) -> None:
    command = [str(binaries.path("helm")), "--kubeconfig", str(cluster.kubeconfig), *arguments]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        words = (done.stderr or done.stdout).strip().splitlines()
        raise Failure(
            f"helm could not install the chart {CHART}: {words[-1] if words else 'no output'}. Look at "
            f"`kubectl --kubeconfig {cluster.kubeconfig} -n {NAMESPACE} get pods,events`."
        )
