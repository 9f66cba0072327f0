"""TPU slices of several hosts, as far as they go without a TPU: workers serve, the chief's program connects to them."""

import json
import signal

import pytest

from tests.support.ports import free_port
from tests.trainer.supervisor.conftest import Launcher, until

pytestmark = pytest.mark.trainer


def test_the_chief_connects_to_the_workers_that_serve_and_says_that_they_have_no_tpu(launch: Launcher):
    cluster = {role: [f"127.0.0.1:{free_port()}"] for role in ("chief", "worker")}
    ports = {addresses[0]: free_port() for addresses in cluster.values()}

    def environment(role: str) -> dict[str, str]:
        return {
            "TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": role, "index": 0}}),
            "DTJ_UID": "uid-1",
            "DTJ_ROLE": role,
            "DTJ_STRATEGY": '{"type": "TPU"}',
            "DTJ_PEER_PORTS": json.dumps(ports),
        }

    chief, worker = (
        launch.start("training.py", http=ports[cluster[role][0]], environment=environment(role))
        for role in ("chief", "worker")
    )
    assert chief.wait() == 1
    assert chief.termination()["class"] == "preflight-failed"
    assert chief.last_line.startswith(f"the TPU 'grpc://{cluster['worker'][0]}' cannot be used (")
    assert "TPU_SYSTEM" in chief.last_line, chief.last_line
    assert worker.get("/readyz")[0] == 200
    worker.process.send_signal(signal.SIGTERM)
    until(lambda: worker.process.poll() is not None, "the worker did not end")
    assert "begin" not in worker.log
