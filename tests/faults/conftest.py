"""What killed operators leave behind is collect_garbage up within the test that killed them."""

from __future__ import annotations

import gc
import logging
from typing import TYPE_CHECKING, Final

import pytest

from e2e.cluster.control_plane import start_control_plane
from tests.faults.fault_cluster import IN_PROCESS, Backend, on_real_cluster
from tests.faults.invariants import Tracebacks
from tests.support.realserver import prepare

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE: Final = "tests/faults"
AS_AFTER_KILL_9: Final = (
    "ignore:Exception ignored in.*(socket|Transport|BaseEventLoop):pytest.PytestUnraisableExceptionWarning"
)
"""A killed process closes neither its connections nor its loops; here the collector does, and says so."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.as_posix():
            item.add_marker(pytest.mark.filterwarnings(AS_AFTER_KILL_9))


@pytest.fixture(autouse=True)
def collect_garbage() -> Iterator[None]:
    """Collect now, so that nothing is left to warn about in a later test."""
    yield
    gc.collect()


@pytest.fixture
def tracebacks() -> Iterator[Tracebacks]:
    """Collect the exceptions that the operators of a test log."""
    found = Tracebacks()
    logger = logging.getLogger("dtj_operator")
    logger.addHandler(found)
    yield found
    logger.removeHandler(found)


@pytest.fixture(scope="session")
def real() -> Iterator[Backend]:
    """Start a real API server with garbage collection, which many fault clusters share."""
    with start_control_plane() as running:
        yield on_real_cluster(prepare(running))


@pytest.fixture(
    params=[pytest.param("in process", marks=pytest.mark.faults), pytest.param("real", marks=pytest.mark.contract)]
)
def backend(request: pytest.FixtureRequest) -> Backend:
    """Return each backend, one after the other."""
    if request.param == "in process":
        return IN_PROCESS
    found: Backend = request.getfixturevalue("real")
    return found
