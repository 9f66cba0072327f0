"""Examples, from the manifest through the operator's builders to processes that train, at small size.

The strategies' own manifests run as jobs on a real cluster: e2e/scenarios/test_strategies.py.
"""

import json
import os
import re
import signal
from pathlib import Path

import pytest

from tests.trainer.examples import cifar10_files, rehearsal
from tests.trainer.supervisor.conftest import Launcher, Pod, launch, until
from tests.trainer.training import launch as launching
from tests.trainer.training.launch import Ended

pytestmark = pytest.mark.trainer
__all__ = ["launch"]

PROGRAMS = Path(__file__).parent / "programs"
LAST = re.compile(r"^test accuracy (\d\.\d+)(?:, under attack (\d\.\d+),)? after (\d+) steps$", re.MULTILINE)


def agreed(ended: dict[str, Ended]) -> tuple[str, ...]:
    """What all processes of a job print last: test accuracy, the same under attack, steps."""
    for each in ended.values():
        assert each.code == 0, each.output[-4000:]
    (last,) = {found for each in ended.values() for found in LAST.findall(each.output)}
    return tuple(last)


def test_hello_learns_its_line_on_a_laptop():
    ended = launching.run("hello.py", folder=rehearsal.EXAMPLES)
    assert ended.code == 0, ended.output[-4000:]
    assert ended.output.splitlines()[-1] == "y = 3.00x + 1.00 after 200 steps"


def test_digits_are_learnt_on_a_laptop():
    ended = launching.run("digits.py", "--epochs=1", "--steps-per-epoch=40", folder=rehearsal.EXAMPLES)
    accuracy, _, steps = agreed({"laptop": ended})
    assert steps == "40"
    assert float(accuracy) > 0.8


def test_four_accumulated_batches_make_one_update(tmp_path):
    ended = rehearsal.run("digits-accumulation.yaml", tmp_path, "--epochs=1", "--steps-per-epoch=80")
    accuracy, _, steps = agreed(ended)
    assert steps == "20"
    assert float(accuracy) > 0.75
    told = json.loads((tmp_path / "job.json").read_text())
    assert told["examples"] == 20 * 4 * 120
    assert told["strategy"] == "MultiWorkerMirrored"


def test_digits_are_learnt_in_16_bits(tmp_path):
    ended = rehearsal.run("digits-mixed-precision.yaml", tmp_path, "--epochs=1", "--steps-per-epoch=20")
    assert float(agreed(ended)[0]) > 0.5


def test_cifar10_is_learnt_by_eight_devices_on_two_machines(tmp_path):
    cifar10_files.write(tmp_path / "data", train=96, test=80)
    arguments = ("--epochs=2", "--blocks=1", "--width=8", "--per-replica-batch=6", f"--data={tmp_path / 'data'}")
    ended = rehearsal.run("cifar10-multiworker.yaml", tmp_path / "state", *arguments)
    assert "MultiWorkerMirrored (as the job says), 8 replicas in 2 processes" in ended["cifar10-worker-0"].output
    assert agreed(ended)[2] == "20"  # 480 images in global batches of 48
    first, last = map(float, re.findall(r"epoch \d/2  loss (\S+)  accuracy", ended["cifar10-worker-0"].output))
    assert last < 0.9 * first


def test_cifar10s_format_is_read_colour_by_colour_and_row_by_row(tmp_path):
    said = launching.run("read_cifar10.py", str(rehearsal.EXAMPLES / "cifar10.py"), str(tmp_path), folder=PROGRAMS).said
    assert said == {"shape": [2, 32, 32, 3], "pixel": [10, 20, 30], "sum": 120, "labels": [7, 7]}


def test_a_folder_without_cifar10_is_named(tmp_path):
    ended = launching.run("cifar10.py", f"--data={tmp_path}", folder=rehearsal.EXAMPLES)
    assert ended.code == 1
    assert f"there is no data_batch_*.bin in {tmp_path}; unpack cifar-10-binary.tar.gz" in ended.output


def test_a_step_of_ones_own_makes_attacks_harder(tmp_path):
    ended = rehearsal.run("adversarial.yaml", tmp_path, "--epochs=2", "--steps-per-epoch=40")
    accuracy, attacked, steps = agreed(ended)
    assert steps == "80"
    assert float(accuracy) > 0.9
    assert float(attacked) > 0.7


def pods(launch: Launcher, name: str, state: Path, *arguments: str) -> list[Pod]:
    """The manifest's pods as they are, `dtj-run` and all."""
    slots = rehearsal.slots(name)
    return [
        launch.start(
            "--threads=1",
            *(
                str(rehearsal.EXAMPLES.parent / each) if each.startswith("examples/") else each
                for each in slot.arguments
            ),
            *arguments,
            http=slot.http,
            environment={**slot.environment, **rehearsal.checkpoints(slot, state)},
        )
        for slot in slots
    ]


def test_a_plain_script_goes_on_from_its_own_checkpoint_when_a_worker_is_killed(launch: Launcher, tmp_path):
    state = tmp_path / "state"
    workers = pods(launch, "tutorial.yaml", state, "--epochs=4", "--steps-per-epoch=20", f"--checkpoints={state}")
    until((state / "checkpoint").exists, "the chief saved nothing after the first epoch")
    os.kill(workers[1].youngest(), signal.SIGKILL)
    assert [pod.wait() for pod in workers] == [0, 0]
    for pod in workers:
        assert "CollectiveAllReduceStrategy with 2 replicas" in pod.log
        assert re.search(r"^goes on after epoch [123]$", pod.log, re.MULTILINE)
        accuracy, _, steps = LAST.findall(pod.log)[-1]
        assert steps == "80"
        assert float(accuracy) > 0.85


def test_a_tpu_job_is_refused_in_one_sentence_where_there_is_no_tpu(launch: Launcher, tmp_path):
    (pod,) = pods(launch, "digits-tpu.yaml", tmp_path)
    assert pod.wait() == 1
    assert pod.termination()["class"] == "preflight-failed"
    assert pod.last_line.startswith("the TPU strategy was asked for and there is no TPU here; ")
    assert "Traceback" not in pod.log
