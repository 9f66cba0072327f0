"""The manifests and the wait of the tutorial, on a real API server."""

from __future__ import annotations

import re
import shlex
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.contract.operator_under_test import Jobs, operator

if TYPE_CHECKING:
    from collections.abc import Iterator

    from e2e.cluster.control_plane import ControlPlane

pytestmark = [pytest.mark.contract, pytest.mark.timeout(600)]

ROOT = Path(__file__).resolve().parents[2]
TUTORIAL = ROOT / "docs" / "getting-started.md"
NAMESPACE = "getting-started"
MANIFEST = re.compile(r"^```yaml\n(apiVersion: .*?)^```", re.MULTILINE | re.DOTALL)
MANIFESTS = [
    (page.name, text) for page in (ROOT / "README.md", TUTORIAL) for text in MANIFEST.findall(page.read_text())
]


@pytest.fixture(scope="module")
def jobs(strict_control_plane: ControlPlane, account: Path) -> Iterator[Jobs]:
    with operator(account):
        yield Jobs(strict_control_plane, NAMESPACE)


@pytest.mark.parametrize(("page", "manifest"), MANIFESTS, ids=[page for page, _ in MANIFESTS])
def test_every_manifest_is_accepted(jobs: Jobs, strict_control_plane: ControlPlane, page: str, manifest: str):
    command = ["apply", "-n", jobs.namespace, "--dry-run=server", "--validate=strict", "-f", "-"]
    assert "(server dry run)" in strict_control_plane.kubectl(*command, stdin=manifest)


@pytest.mark.parametrize(("code", "phase"), [(0, "Succeeded"), (1, "Failed")])
def test_the_wait_ends_when_the_job_has_succeeded_and_when_it_has_failed(
    jobs: Jobs, strict_control_plane: ControlPlane, code: int, phase: str
):
    (command,) = set(re.findall(r"^kubectl (wait dtj/hello .*)$", TUTORIAL.read_text(), re.MULTILINE))
    name = f"hello-{code}"
    jobs.create(name, worker=1, scheduler="none", failurePolicy={"maxRestarts": 0})
    jobs.until(lambda: f"{name}-worker-0" in jobs.pods(), "a pod")
    with ThreadPoolExecutor() as threads:
        words = shlex.split(command.replace("dtj/hello", f"dtj/{name}"))
        waiting = threads.submit(strict_control_plane.kubectl, "-n", jobs.namespace, *words)
        jobs.start_pod(f"{name}-worker-0")
        jobs.end_pod(f"{name}-worker-0", code)
        waiting.result(timeout=60)
    assert jobs.status(name)["phase"] == phase
