"""What people get wrong, as whole jobs: one line says it, class and exit code are right, and nothing hangs.

Missing files and wrong columns are in tests/trainer/data/test_sources_in_jobs.py, another TensorFlow on a peer in
test_cluster.py.
"""

import json
import re
import subprocess

import pytest

from tests.support.ports import free_port
from tests.trainer.supervisor.conftest import Launcher

pytestmark = pytest.mark.trainer


@pytest.fixture
def small_disk(tmp_path):
    place = tmp_path / "small"
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)], check=False).returncode:
        pytest.skip("mounting a small file system needs root")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_each_mistake_ends_its_job_with_one_line(small_disk, launch: Launcher):
    nowhere = f"hdfs://127.0.0.1:{free_port()}/clicks"
    saving = {"DTJ_CHECKPOINT": json.dumps({"directory": f"{small_disk}/state", "everySteps": 2})}
    expected = {
        ("nan",): ("user-error", r"the loss is NaN at step \d+; "),
        ("shape",): (
            "user-error",
            r"ValueError: [^\x1b]* expected axis -1 .* value 9, but .* shape \(None, 8\) \(mistaken\.py, line \d+\)$",
        ),
        ("optimizer",): ("user-error", r"ValueError: .*amad.* \(mistaken\.py, line \d+\)$"),
        ("hdfs", nowhere): (
            "preflight-failed",
            f"the service that holds {nowhere} does not answer; check its address and that it runs$",
        ),
        ("disk",): (
            "user-error",
            f"the disk of {small_disk}/state is full, no checkpoint could be saved; free space or use a larger volume$",
        ),
    }
    pods = {
        mistake: launch.start(
            "--threads", "1", "mistaken.py", *mistake, environment=saving if mistake == ("disk",) else {}
        )
        for mistake in expected
    }
    for mistake, (exit_class, sentence) in expected.items():
        pod = pods[mistake]
        assert pod.wait(240) == 1, pod.log
        told = pod.termination()
        assert (told["class"], told["exitCode"], told["restarts"]) == (exit_class, 1, 0)
        assert re.match(sentence, pod.last_line), pod.last_line
        assert pod.last_line == told["message"]
        assert "Traceback" not in pod.log.split(pod.last_line)[0], pod.log
