"""Fixtures of the scenarios: one cluster for all, and the figures that they record: build/results/e2e.json.

A cluster that was started here is taken down at the end; one that ran before is left running. DTJ_E2E_KEEP=1 keeps it
in any case.

With several processes (`-n 3`) one runs the scenarios that train, another those that mostly wait, and another the tests
of the cluster itself, which start their own clusters. Modules marked `alone` come last and wait until the others have
ended: they measure times, or disturb others.
"""

import fcntl
import itertools
import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from e2e import chart
from e2e.cluster import Cluster, ClusterError, providers
from e2e.cluster.api_client import ApiClient
from e2e.cluster.images import built, named
from e2e.scenarios.fixtures import Installation, JobNamespace

CLUSTER = "dtj"
REPORT = Path(__file__).resolve().parent.parent / "build" / "results" / "e2e.json"
_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def run_directory(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory that the processes of this run share."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if hasattr(request.config, "workerinput") else own


@contextmanager
def locked(path: Path, how: int) -> Iterator[None]:
    with path.open("a") as lock:
        fcntl.flock(lock, how)
        yield


class ModuleLock:
    """A lock between processes: shared by many modules, or held exclusively by one that is marked `alone`.

    A process keeps it from module to module: one that waits to run alone waits for all modules of the others.
    """

    def __init__(self, path: Path) -> None:
        self._lock = path.open("a")

    def take(self, *, alone: bool) -> None:
        fcntl.flock(self._lock, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)

    def leave(self) -> None:
        fcntl.flock(self._lock, fcntl.LOCK_UN)

    def close(self) -> None:
        self._lock.close()


@pytest.fixture(scope="session")
def module_lock(run_directory: Path) -> Iterator[ModuleLock]:
    module_lock = ModuleLock(run_directory / "modules.lock")
    yield module_lock
    module_lock.close()


@pytest.fixture(scope="session")
def installation(run_directory: Path, module_lock: ModuleLock) -> Iterator[Installation]:
    """Return a cluster of two nodes with both images and the chart installed by helm.

    The process that needs it first starts it, and takes it down when no other uses it any more.
    """
    provider = os.environ.get("DTJ_E2E_PROVIDER", "embedded")
    pulled = [os.environ.get(name) for name in ("DTJ_OPERATOR_IMAGE", "DTJ_TRAINER_IMAGE")]
    images = named(*pulled) if provider == "existing" else built()
    with ExitStack() as stack, locked(run_directory / "users.lock", fcntl.LOCK_SH):
        with locked(run_directory / "installation.lock", fcntl.LOCK_EX):
            if (run_directory / "installation").exists():
                cluster = providers.attach(provider, CLUSTER)
            else:
                running = runs_already(provider)
                cluster = providers.up(provider, CLUSTER, nodes=2, images=images.archives)
                if not running and not os.environ.get("DTJ_E2E_KEEP"):
                    stack.enter_context(taken_down(cluster, run_directory))
                chart.install(cluster, images.operator)
                (run_directory / "installation").touch()
        yield Installation(cluster, ApiClient(cluster.kubeconfig), images.operator, images.trainer)
        module_lock.leave()  # whoever holds it still needs the cluster


@contextmanager
def taken_down(cluster: Cluster, run_directory: Path) -> Iterator[None]:
    try:
        yield
    finally:
        with locked(run_directory / "users.lock", fcntl.LOCK_EX):
            cluster.down()


def runs_already(provider: str) -> bool:
    try:
        return not providers.problems(providers.attach(provider, CLUSTER))
    except ClusterError:
        return False


@pytest.fixture(scope="module")
def job_namespace(installation: Installation) -> Iterator[JobNamespace]:
    """Return a new namespace with an empty claim; deleted after the module."""
    namespace = f"e2e-{os.getpid()}-{next(_numbers)}"
    checkpoints = installation.cluster.shared_volume(namespace, "checkpoints")
    yield JobNamespace(installation, namespace, checkpoints)
    installation.api.delete(f"/api/v1/namespaces/{namespace}")


@pytest.fixture(scope="module", autouse=True)
def hold_module_lock(request: pytest.FixtureRequest, module_lock: ModuleLock) -> None:
    module_lock.take(alone=request.node.get_closest_marker("alone") is not None)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("timeout") is None:  # waiting for the module lock does not count
            item.add_marker(pytest.mark.timeout(300, func_only=True))
    items.sort(key=lambda item: item.get_closest_marker("alone") is not None)


class Figures:
    """A plugin that gathers each scenario's result and the figures of its `record_property`."""

    def __init__(self) -> None:
        self._entries: dict[str, dict[str, Any]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if "e2e" not in report.keywords:
            return
        entry = self._entries.setdefault(report.location[2], {"passed": False, "seconds": 0.0})
        entry["seconds"] = round(entry["seconds"] + report.duration, 2)
        if report.when == "call":
            entry["passed"] = report.passed
            entry.update(dict(report.user_properties))
        elif report.failed:
            entry["passed"] = False

    def pytest_sessionfinish(self) -> None:
        if self._entries:
            REPORT.parent.mkdir(parents=True, exist_ok=True)
            REPORT.write_text(json.dumps(self._entries, indent=2) + "\n", encoding="utf-8")


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # one of several processes, whose reports go to the first
        config.pluginmanager.register(Figures())
