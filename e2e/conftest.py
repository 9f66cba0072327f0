"""The cluster under the scenarios, brought up once, and the figures they leave: build/results/e2e.json.

An own cluster is taken down at the end; one that ran before is left running. DTJ_E2E_KEEP=1 keeps it in any case.
"""

import itertools
import json
import os
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e import chart
from e2e.api import Api
from e2e.cluster import ClusterError, providers
from e2e.cluster.images import build_images
from e2e.scenarios.ground import Ground, Place

CLUSTER = "dtj"
REPORT = Path(__file__).resolve().parent.parent / "build" / "results" / "e2e.json"
_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def ground() -> Iterator[Ground]:
    """Two nodes, both images, the chart installed by helm."""
    images = build_images()
    provider = os.environ.get("DTJ_E2E_PROVIDER", "embedded")
    running = runs_already(provider)
    archives = {image.ref: image.archive for image in images.values()}
    cluster = providers.up(provider, CLUSTER, nodes=2, images=archives)
    try:
        chart.install(cluster, images["dtj-operator"].ref)
        yield Ground(cluster, Api(cluster.kubeconfig), images["dtj-trainer"].ref)
    finally:
        if not running and not os.environ.get("DTJ_E2E_KEEP"):
            cluster.down()


def runs_already(provider: str) -> bool:
    try:
        return not providers.problems(providers.attach(provider, CLUSTER))
    except ClusterError:
        return False


@pytest.fixture(scope="module")
def place(ground: Ground) -> Iterator[Place]:
    """A fresh namespace with an empty claim; gone after the module."""
    namespace = f"e2e-{os.getpid()}-{next(_numbers)}"
    checkpoints = ground.cluster.shared_volume(namespace, "checkpoints")
    yield Place(ground, namespace, checkpoints)
    ground.api.delete(f"/api/v1/namespaces/{namespace}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Gather each scenario's result; figures come from `record_property`."""
    report = yield
    if item.get_closest_marker("e2e") is None:
        return report
    entries = item.config.stash.setdefault(ENTRIES, {})
    entry = entries.setdefault(item.name, {"passed": False, "seconds": 0.0})
    entry["seconds"] = round(entry["seconds"] + report.duration, 2)
    if report.when == "call":
        entry["passed"] = report.passed
        entry.update(dict(report.user_properties))
    elif report.failed:
        entry["passed"] = False
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    entries = session.config.stash.get(ENTRIES, {})
    if entries:
        REPORT.parent.mkdir(parents=True, exist_ok=True)
        REPORT.write_text(json.dumps(entries, indent=2) + "\n", encoding="utf-8")


ENTRIES = pytest.StashKey[dict[str, dict[str, Any]]]()
