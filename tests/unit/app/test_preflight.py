"""Questions to an API server that stumbles while the operator starts."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain, repeat
from typing import Any
from unittest.mock import AsyncMock

import pytest

from dtj_operator.app import preflight
from dtj_operator.kube.errors import KubeError, OutcomeUnknown, Refused, Retry
from dtj_operator.kube.rest_config import RestConfig

SERVER = RestConfig(server="https://127.0.0.1:6443")


def reviewer(*failures: KubeError) -> Any:
    """A client whose server answers reviews, after it has failed to."""
    answers: list[Any] = list(failures)
    return AsyncMock(create=AsyncMock(side_effect=chain(answers, repeat({"status": {"allowed": True}}))))


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(preflight, "PAUSE_SECONDS", 0.0)


@pytest.mark.parametrize(
    "failure", [OutcomeUnknown("etcdserver: leader changed", code=500), Retry("too many", code=429)]
)
async def test_an_operator_that_may_watch_nodes_does_so_although_the_server_stumbled_when_it_asked(failure):
    assert await preflight.may_watch_nodes(reviewer(failure, failure), SERVER)


async def test_where_rights_cannot_be_asked_for_lost_nodes_are_told_by_their_pods():
    assert not await preflight.may_watch_nodes(reviewer(*[Refused("no such question", code=403)] * 4), SERVER)


async def test_a_server_that_goes_on_stumbling_is_waited_for_no_longer_than_that():
    with pytest.raises(preflight.PreflightError, match="too many"):
        await preflight.may_watch_nodes(
            reviewer(*[Retry("too many", code=429)] * 8), replace(SERVER, startup_timeout_seconds=0.0)
        )
