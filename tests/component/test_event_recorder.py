"""Events, as the API server in this process gets them."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from dtj_operator.cache.job_cache import CachedJob
from dtj_operator.controller.event_recorder import EventRecorder
from dtj_operator.kube.client import ApiClient
from dtj_operator.kube.rest_config import RestConfig, Token
from dtj_operator.reconcile.state.plan import Event
from tests.component.running_operator import job
from tests.support.apiserver import Answer, ApiServer


@pytest.fixture
async def recorder(api_server: ApiServer):
    rest_config = RestConfig(server=api_server.url, token=Token("operator"))
    async with ApiClient(rest_config, user_agent="dtj-operator/test") as client:
        recorder = EventRecorder(client, lambda: datetime.now(UTC), "operator-0", busy=lambda: False)
        task = asyncio.create_task(recorder.run())
        yield recorder
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
def cached(api_server: ApiServer) -> CachedJob:
    return CachedJob(api_server.create("distributedtrainingjobs", job()))


def fail(recorder: EventRecorder, cached: CachedJob, *numbers: int) -> None:
    for number in numbers:
        recorder.event(cached, Event("Warning", "PodFailed", f"Pod {number} failed", "worker UserError"))


def stored(api_server: ApiServer) -> list[dict[str, Any]]:
    return sorted(api_server.list("events"), key=lambda event: event["count"])


async def test_a_thousand_failed_pods_make_ten_events_and_one_that_counts_the_rest(recorder, cached, api_server):
    fail(recorder, cached, *range(1000))
    await recorder.flush(20)
    events = stored(api_server)
    assert [event["count"] for event in events] == [1] * 10 + [990]
    assert events[-1]["message"] == "(combined from similar events): Pod 999 failed"


async def test_the_event_that_counts_grows_with_later_failures(recorder, cached, api_server):
    fail(recorder, cached, *range(12))
    await recorder.flush(20)
    fail(recorder, cached, 12, 13, 14)
    await recorder.flush(20)
    events = stored(api_server)
    assert [event["count"] for event in events] == [1] * 10 + [5]
    assert events[-1]["message"].endswith("Pod 14 failed")
    assert events[-1]["firstTimestamp"] <= events[-1]["lastTimestamp"]


async def test_a_refused_event_that_counts_is_posted_with_the_next_failure(recorder, cached, api_server):
    fail(recorder, cached, *range(10))
    await recorder.flush(20)
    api_server.faults.add(lambda request: request.verb == "create", Answer(403, "Forbidden"), times=1)
    fail(recorder, cached, 10)
    await recorder.flush(20)
    fail(recorder, cached, 11)
    await recorder.flush(20)
    assert [event["count"] for event in stored(api_server)] == [1] * 10 + [2]
