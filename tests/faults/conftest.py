"""What killed operators leave behind is swept up within the test that killed them."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE: Final = "tests/faults"
AS_AFTER_KILL_9: Final = "ignore:Exception ignored in.*(socket|Transport):pytest.PytestUnraisableExceptionWarning"
"""A killed process closes no connection; here the collector does, and says so."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.as_posix():
            item.add_marker(pytest.mark.filterwarnings(AS_AFTER_KILL_9))


@pytest.fixture(autouse=True)
def swept() -> Iterator[None]:
    """Nothing is left for the collector to find in a later test."""
    yield
    gc.collect()
