"""The ceiling: a bare aiohttp client that only sends what the operator has to send.

For each job one status write, the service and the pods, byte for byte what the operator makes of the job, encoded
before the clock starts. One watch of pods is open and read; answers are read and not parsed.

A program of its own, `python -m bench.operator.bare KUBECONFIG NAMESPACE CONNECTIONS`: it prints `ready`, waits for
a line on stdin, works, and prints the seconds it took, and those of the processor.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime

import aiohttp
from yarl import URL

from dtj_operator.api.job import Job
from dtj_operator.builders.pod import build_pod
from dtj_operator.builders.service import build_service
from dtj_operator.kube import serializer
from dtj_operator.kube.client import ApiClient
from dtj_operator.kube.kubeconfig import load_config
from dtj_operator.kube.resources import JOBS, PODS, SERVICES
from dtj_operator.kube.rest_config import RestConfig
from dtj_operator.reconcile.decide import decide
from dtj_operator.reconcile.state.snapshot import Snapshot

USER_AGENT = "bare-client"
Request = tuple[str, URL, bytes, str]


def requests(server: str, job: Job) -> Iterator[Request]:
    """Yield the requests that one job needs, in order."""
    accepted = decide(Snapshot(job), datetime.now(UTC)).status
    assert accepted
    patch = {"metadata": {"resourceVersion": job.resource_version}, "status": accepted.wire()}
    at = JOBS.path(job.namespace, job.name, "status")
    yield "PATCH", _url(server, at), serializer.dumps(patch), "application/merge-patch+json"
    yield "POST", _url(server, SERVICES.path(job.namespace)), serializer.dumps(build_service(job)), "application/json"
    for role, replica in job.spec.replica_specs.items():
        for index in range(replica.replicas):
            body = serializer.dumps(build_pod(job, role, index, 0))
            yield "POST", _url(server, PODS.path(job.namespace)), body, "application/json"


async def main(kubeconfig: str, namespace: str, connections: int) -> None:
    """Create everything for all jobs of a namespace, as the module says."""
    here = load_config(kubeconfig, {})
    line = [request async for job in _jobs(here, namespace) for request in requests(here.server, job)]
    connector = aiohttp.TCPConnector(limit=0, ssl=here.ssl_context() or True)
    async with aiohttp.ClientSession(connector=connector, headers={"User-Agent": USER_AGENT}) as session:
        watch = asyncio.create_task(_watch(session, here.server, namespace))
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        began, used = time.perf_counter(), time.process_time()
        rest = iter(line)

        async def drain() -> None:
            for method, url, body, content in rest:
                async with session.request(method, url, data=body, headers={"Content-Type": content}) as answer:
                    await answer.read()
                    answer.raise_for_status()

        async with asyncio.TaskGroup() as group:
            for _ in range(connections):
                group.create_task(drain())
        print(time.perf_counter() - began, time.process_time() - used, flush=True)
        watch.cancel()


async def _jobs(here: RestConfig, namespace: str) -> AsyncIterator[Job]:
    async with ApiClient(here, user_agent=USER_AGENT) as client:
        async for page in client.list_pages(JOBS, namespace):
            for item in page.items:
                yield Job.parse(item)


async def _watch(session: aiohttp.ClientSession, server: str, namespace: str) -> None:
    url = _url(server, f"{PODS.path(namespace)}?watch=true&labelSelector=dtj.dev/job-name")
    async with session.get(url, timeout=aiohttp.ClientTimeout()) as stream:
        async for _chunk in stream.content.iter_any():
            pass


def _url(server: str, path: str) -> URL:
    return URL(server + path, encoded=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
