"""What killed operators leave behind is swept up within the test that killed them."""

from __future__ import annotations

import gc
import logging
from typing import TYPE_CHECKING, Final

import pytest

from e2e.cluster.api_server import plane
from tests.faults.fault_cluster import IN_PROCESS, Stage, on_plane
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
def swept() -> Iterator[None]:
    """Nothing is left for the collector to find in a later test."""
    yield
    gc.collect()


@pytest.fixture
def tracebacks() -> Iterator[Tracebacks]:
    """What the operators of a test have logged that is never expected."""
    found = Tracebacks()
    logger = logging.getLogger("dtj_operator")
    logger.addHandler(found)
    yield found
    logger.removeHandler(found)


@pytest.fixture(scope="session")
def real() -> Iterator[Stage]:
    """A real API server with garbage collection, on which many worlds go on at the same time."""
    with plane() as running:
        yield on_plane(prepare(running))


@pytest.fixture(
    params=[pytest.param("in process", marks=pytest.mark.faults), pytest.param("real", marks=pytest.mark.contract)]
)
def stage(request: pytest.FixtureRequest) -> Stage:
    """Each API server in turn."""
    if request.param == "in process":
        return IN_PROCESS
    found: Stage = request.getfixturevalue("real")
    return found
