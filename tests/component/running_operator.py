"""A running operator on the API server in this process."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dtj_operator.app.manager import utc_now
from tests.support.operator_process import QUIET, OperatorProcess

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tests.support.apiserver import ApiServer

JOBS = "distributedtrainingjobs"


@asynccontextmanager
async def running_operator(
    server: ApiServer, *, token: str = "operator", **settings: Any
) -> AsyncIterator[OperatorProcess]:
    """Run an operator in a thread of its own; stopped as by SIGTERM at the end.

    In this test's loop kopf would, at its end, wait for the API server's connections and then cancel them.
    """
    process = OperatorProcess(
        server, loop=asyncio.new_event_loop(), now=utc_now, token=token, settings=replace(QUIET, **settings)
    )
    try:
        process.start()
        await process.ready()
        yield process
    finally:
        process.terminate()
        await process.ended()
    if process.error is not None:
        raise process.error


def job(name: str = "train", *, worker: int = 2, **spec: Any) -> dict[str, Any]:
    """Return a job of so many workers, with small backoffs."""
    template = {"spec": {"containers": [{"name": "tensorflow", "image": "dtj-trainer:test"}]}}
    roles = {"worker": {"replicas": worker, "restartPolicy": "OnFailure", "template": template}}
    policy = {"maxRestarts": 3, "backoff": {"initialSeconds": 0, "maxSeconds": 1, "resetAfterSeconds": 600}}
    return {
        "apiVersion": "dtj.dev/v1alpha1",
        "kind": "DistributedTrainingJob",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"replicaSpecs": roles, "failurePolicy": policy, **spec},
    }


def status(server: ApiServer, name: str = "train") -> dict[str, Any]:
    """Return the stored status; empty when there is none."""
    found = server.get(JOBS, "default", name) or {}
    return found.get("status") or {}


def condition(server: ApiServer, kind: str, name: str = "train") -> tuple[str, str]:
    """Return status and reason of one condition."""
    for entry in status(server, name).get("conditions") or ():
        if entry["type"] == kind:
            return entry["status"], entry["reason"]
    return "", ""


async def until(test: Callable[[], bool], seconds: float = 10.0) -> None:
    """Wait until a condition holds."""
    async with asyncio.timeout(seconds):
        while not test():  # noqa: ASYNC110  (the server has no event for just anything)
            await asyncio.sleep(0.005)
