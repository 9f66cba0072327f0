"""The simulated kubelet does with pods what the real one does."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest_asyncio

from tests.support.apiserver import ApiServer
from tests.support.kubelet import Kubelet, PodBehavior

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable


@pytest_asyncio.fixture
async def kubelet() -> AsyncIterator[Kubelet]:
    async with ApiServer(crd=None) as server, Kubelet(server) as running:
        yield running


def make(kubelet: Kubelet, name: str, policy: str = "Never") -> None:
    spec = {"restartPolicy": policy, "containers": [{"name": "main", "image": "trainer:1"}]}
    kubelet.server.create("pods", {"metadata": {"name": name}, "spec": spec})


def phase(kubelet: Kubelet, name: str) -> str:
    found = kubelet.server.get("pods", "default", name)
    return "gone" if found is None else str(found["status"]["phase"])


def container(kubelet: Kubelet, name: str) -> dict[str, Any]:
    found = kubelet.server.get("pods", "default", name)
    assert found is not None
    status: dict[str, Any] = found["status"]["containerStatuses"][0]
    return status


async def until(reached: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not reached():  # noqa: ASYNC110 - the state of the server, not an event
            await asyncio.sleep(0.002)


async def test_a_pod_is_bound_and_becomes_ready(kubelet):
    make(kubelet, "a")
    assert phase(kubelet, "a") == "Pending"
    await until(lambda: phase(kubelet, "a") == "Running")
    found = kubelet.server.get("pods", "default", "a")
    assert found["spec"]["nodeName"] in kubelet.nodes
    assert {"Ready": "True"}.items() <= {c["type"]: c["status"] for c in found["status"]["conditions"]}.items()


async def test_incarnations_go_as_scripted_one_after_another(kubelet):
    kubelet.script("a", PodBehavior(exit_code=3, message="boom"), PodBehavior(exit_code=0))
    for expected, code in (("Failed", 3), ("Succeeded", 0)):
        make(kubelet, "a")
        await until(lambda: phase(kubelet, "a") != "Pending" and phase(kubelet, "a") != "Running")
        assert phase(kubelet, "a") == expected
        assert container(kubelet, "a")["state"]["terminated"]["exitCode"] == code
        kubelet.server.delete("pods", "default", "a")
        assert phase(kubelet, "a") == "gone", "a pod that has ended needs no confirmation"
    make(kubelet, "a")
    await until(lambda: phase(kubelet, "a") == "Running")
    assert kubelet.incarnations("a") == 3


async def test_a_deleted_pod_stays_until_the_kubelet_confirms(kubelet):
    make(kubelet, "a")
    await until(lambda: phase(kubelet, "a") == "Running")
    kubelet.halted = True
    kubelet.server.delete("pods", "default", "a")
    await asyncio.sleep(0.03)
    assert phase(kubelet, "a") == "Running"
    kubelet.resume()
    await until(lambda: phase(kubelet, "a") == "gone")


async def test_under_always_the_container_is_started_again_in_place(kubelet):
    make(kubelet, "a", policy="Always")
    await until(lambda: phase(kubelet, "a") == "Running")
    assert kubelet.exit("a", 137)
    assert phase(kubelet, "a") == "Running"
    assert container(kubelet, "a")["restartCount"] == 1
    assert container(kubelet, "a")["lastState"]["terminated"]["exitCode"] == 137
