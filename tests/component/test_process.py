"""The operator as a process: exit codes, last log lines, probes."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from dtj_operator.controller.leader_election import LeaderElectionConfig
from tests.component.running_operator import JOBS, condition, job, status, until
from tests.support.apiserver import Answer, ApiServer
from tests.support.ports import free_port

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

NOT_SERVED = Answer(404, "NotFound", "the server could not find the requested resource")


async def start(*arguments: str, **environment: str) -> asyncio.subprocess.Process:
    inherited = {name: value for name, value in os.environ.items() if name in {"PATH", "LANG", "VIRTUAL_ENV"}}
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "dtj_operator", *arguments,
        env={**inherited, "PYTHONPATH": "operator", "HOME": "/nonexistent"} | environment,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip


async def end(process: asyncio.subprocess.Process, seconds: float = 20.0) -> tuple[int | None, str, str]:
    async with asyncio.timeout(seconds):
        out, err = await process.communicate()
    return process.returncode, out.decode(), err.decode()


async def answer(port: int, path: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}{path}") as found:
        return found.status, await found.text()


async def test_it_works_is_ready_shows_metrics_and_leaves_with_0_on_sigterm(api_server: ApiServer, tmp_path: Path):
    health, metrics = free_port(), free_port()
    config = str(api_server.kubeconfig(tmp_path / "config", namespace="dtj-system"))
    process = await start(
        "run", f"--health-probe-bind-address=127.0.0.1:{health}", f"--metrics-bind-address=127.0.0.1:{metrics}",
        "--log-format=json", KUBECONFIG=config,
    )  # fmt: skip
    api_server.create(JOBS, job())
    await until(lambda: condition(api_server, "Created")[0] == "True", seconds=20)
    assert await answer(health, "/healthz") == (200, "ok\n")
    assert await answer(health, "/readyz") == (200, "ok\n")
    _, text = await answer(metrics, "/metrics")
    assert "dtj_jobs_created_total 1.0" in text
    for name in (
        "controller_runtime_reconcile_total",
        "workqueue_depth",
        "rest_client_requests_total",
        "dtj_jobs{phase=",
    ):
        assert name in text
    began = asyncio.get_running_loop().time()
    process.send_signal(signal.SIGTERM)
    code, _, err = await end(process)
    assert (code, asyncio.get_running_loop().time() - began < 3.0) == (0, True)
    assert '"message": "working"' in err
    lease: Any = api_server.get("leases", "dtj-system", "dtj-operator")
    assert lease["spec"]["holderIdentity"] == ""


async def test_it_leaves_with_0_on_sigterm_before_it_has_begun(tmp_path: Path):
    (tmp_path / "aiohttp.py").write_text(
        "import sys, time\nprint('importing', file=sys.stderr, flush=True)\ntime.sleep(60)\n"
    )
    process = await start("run", PYTHONPATH=f"{tmp_path}{os.pathsep}operator")
    assert process.stderr is not None
    assert await process.stderr.readline() == b"importing\n"
    process.send_signal(signal.SIGTERM)
    code, _, _ = await end(process)
    assert code == 0


@pytest.mark.parametrize(
    ("arguments", "environment", "words"),
    [
        (["run"], {"KUBECONFIG": "/no/such/file"}, "the kubeconfig /no/such/file does not exist"),
        (["run"], {}, "no cluster to talk to: set KUBECONFIG or --kubeconfig"),
        (["run"], {"DTJ_OPERATOR_WORKERS": "none"}, "(DTJ_OPERATOR_WORKERS) is 'none': give a number of at least 1"),
        (["run", "--frobnicate"], {}, "unrecognized arguments: --frobnicate"),
        ([], {}, "say what to do: dtj-operator run, or dtj-operator crd"),
    ],
)
async def test_misconfiguration_ends_with_one_sentence(arguments, environment, words):
    code, _, err = await end(await start(*arguments, **environment))
    assert code
    assert words in err.splitlines()[-1]


async def test_a_missing_crd_is_said(tmp_path: Path):
    async with ApiServer() as server:
        server.delete("customresourcedefinitions", "", f"{JOBS}.dtj.dev")
        server.faults.add(lambda request: request.resource == JOBS, NOT_SERVED, times=None)
        config = str(server.kubeconfig(tmp_path / "config"))
        code, _, err = await end(
            await start("run", "--metrics-bind-address=0", "--health-probe-bind-address=0", KUBECONFIG=config)
        )
    assert code
    assert "does not know DistributedTrainingJobs: install the CRD first" in err.splitlines()[-1]


async def test_missing_rights_are_named(api_server: ApiServer, tmp_path: Path):
    rules = [{"apiGroups": ["dtj.dev"], "resources": [JOBS], "verbs": ["get", "list", "watch"]}]
    api_server.access.grant("poor", "system:serviceaccount:dtj-system:dtj-operator", rules)
    config = str(api_server.kubeconfig(tmp_path / "config", token="poor"))
    code, _, err = await end(
        await start("run", "--metrics-bind-address=0", "--health-probe-bind-address=0", KUBECONFIG=config)
    )
    assert code
    last = err.splitlines()[-1]
    assert "this identity may not" in last
    assert "create pods" in last


async def test_a_busy_port_is_named(api_server: ApiServer, tmp_path: Path):
    port = int(api_server.url.rsplit(":", 1)[1])
    config = str(api_server.kubeconfig(tmp_path / "config"))
    code, _, err = await end(
        await start(
            "run", f"--metrics-bind-address=127.0.0.1:{port}", "--health-probe-bind-address=0", KUBECONFIG=config
        )
    )
    assert code
    assert f"cannot listen on 127.0.0.1:{port}" in err.splitlines()[-1]


@asynccontextmanager
async def leading(server: ApiServer, folder: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """Start a process that leads and has reconciled one job; killed at the end if it still runs."""
    config = str(server.kubeconfig(folder / "config", namespace="dtj-system"))
    quiet = ("--metrics-bind-address=0", "--health-probe-bind-address=0")
    process = await start("run", *quiet, KUBECONFIG=config)
    try:
        server.create(JOBS, job())
        # Created and NoCheckpoints are the last that it has to say until something happens.
        await until(lambda: len(server.list("pods")) == len(server.list("events")) == 2, seconds=60)
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def steal(server: ApiServer) -> None:
    """Let another operator hold the lease."""
    server.patch("leases", "dtj-system", "dtj-operator", {"spec": {"holderIdentity": "another"}})


async def test_a_process_whose_lease_is_taken_ends_by_itself_and_says_why(api_server: ApiServer, tmp_path: Path):
    async with leading(api_server, tmp_path) as process:
        steal(api_server)
        code, _, err = await end(process)
    assert code == 1
    assert err.splitlines()[-1].endswith("leadership was lost; another operator takes over")
    lease: Any = api_server.get("leases", "dtj-system", "dtj-operator")
    assert lease["spec"]["holderIdentity"] == "another"


@pytest.mark.faults
async def test_a_leader_that_was_stopped_for_longer_than_its_lease_writes_nothing_when_it_wakes(
    api_server: ApiServer, tmp_path: Path
):
    async with leading(api_server, tmp_path) as process:
        process.send_signal(signal.SIGSTOP)
        stopped = len(api_server.log.requests)
        api_server.create(JOBS, job("second"))
        await asyncio.sleep(LeaderElectionConfig().renew_deadline + 0.5)
        steal(api_server)
        process.send_signal(signal.SIGCONT)
        code, _, _ = await end(process)
    assert code == 1
    later = [request for request in api_server.log.requests[stopped:] if request.changed]
    assert [request.target for request in later if request.user_agent.startswith("dtj-operator/")] == []


@pytest.fixture
def any_depth():
    """Wait long enough for the API server in this process, which is Python too."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(12_000)
    yield
    sys.setrecursionlimit(before)


async def test_a_template_nested_more_deeply_than_json_is_read_by_default_concerns_its_job_alone(
    any_depth, api_server: ApiServer, tmp_path: Path
):
    nested: Any = {}
    for _ in range(2_000):
        nested = {"a": nested}

    def absurd(name: str) -> dict[str, Any]:
        found = job(name)
        found["spec"]["replicaSpecs"]["worker"]["template"]["spec"]["affinity"] = nested
        return found

    api_server.create(JOBS, absurd("listed"))
    config = str(api_server.kubeconfig(tmp_path / "config", namespace="dtj-system"))
    process = await start("run", "--metrics-bind-address=0", "--health-probe-bind-address=0", KUBECONFIG=config)
    await until(lambda: condition(api_server, "Invalid", "listed")[0] == "True", seconds=20)
    api_server.create(JOBS, absurd("watched"))
    await until(lambda: condition(api_server, "Invalid", "watched")[0] == "True", seconds=20)
    api_server.create(JOBS, job())
    await until(lambda: condition(api_server, "Created")[0] == "True", seconds=20)
    process.send_signal(signal.SIGTERM)
    code, _, _ = await end(process)
    assert code == 0
    assert "nests more than 200 lists and objects" in status(api_server, "watched")["message"]


async def test_the_crd_is_printed():
    code, out, _ = await end(await start("crd"))
    assert code == 0
    assert "distributedtrainingjobs.dtj.dev" in out
