"""The files in written_before/ were written by an earlier version: they are read, and written again, as they are.

Those in written_before/uid/ are of a version that wrote the job's UID instead of its hash: they are read only.
"""

import json
import random
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from dtj_trainer.checkpoint import content, done_file, job_file, trainings
from dtj_trainer.checkpoint.content import CheckpointContent, EpochLogs, TrainingPosition
from dtj_trainer.checkpoint.done_file import DoneFile
from dtj_trainer.checkpoint.job_file import JobFile
from dtj_trainer.checkpoint.owner_file import OwnerFile
from dtj_trainer.checkpoint.trainings import TrainingRecord
from dtj_trainer.contract import job_hash
from dtj_trainer.data.position import DataPosition, ReadSpan
from dtj_trainer.storage.open import open_folder

WRITTEN = Path(__file__).parent / "written_before"
POSITION = TrainingPosition(
    step=12,
    data=DataPosition(384, 24, (ReadSpan(2, 256), ReadSpan(3, 128))),
    epoch_end_pending=True,
    metric_sums={"loss": 3.5, "accuracy": 12.25},
    metric_examples=64,
)
CONTENT = CheckpointContent(POSITION, {"loss": 0.25, "val_loss": 0.5})
JOB = JobFile(
    step=12,
    epoch=1,
    examples=384,
    strategy="MultiWorkerMirrored",
    replicas=4,
    workers=2,
    seed=7,
    accumulate=2,
    global_batch=32,
    global_batch_given=None,
    job=job_hash("u"),
    attempt=3,
    versions={"tensorflow": "2.21.0", "keras": "3.15.1", "python": "3.11.2"},
)


def test_the_state_in_a_checkpoint_keeps_its_format():
    text = (WRITTEN / "state.json").read_text()
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002 - the legacy state is what programs use
    assert content.restore(text) == CONTENT
    assert json.loads(content.serialize(CONTENT)) == {**json.loads(text), "history": []}
    random.seed(5)
    np.random.seed(5)  # noqa: NPY002 - as above
    random.gauss(0, 1)
    np.random.normal()  # noqa: NPY002 - as above
    assert json.loads(content.serialize(CONTENT)) == {**json.loads(text), "history": []}


def test_a_checkpoint_holds_the_history_of_its_epochs():
    held = replace(
        CONTENT, history=(EpochLogs(0, {"loss": 0.5}), EpochLogs(1, {"loss": 0.25, "per_class": [0.1, 0.9]}))
    )
    assert content.restore(content.serialize(held)) == held


def test_a_checkpoint_holds_the_state_of_an_iterator_where_there_is_one():
    position = replace(CONTENT.position, iterator_state=b"\0\xff")
    held = replace(CONTENT, position=position)
    assert content.restore(content.serialize(held)) == held
    assert "iterator" not in json.loads(content.serialize(CONTENT))["position"]


def test_a_finished_training_says_so():
    finished = replace(CONTENT, finished=True)
    assert content.restore(content.serialize(finished)) == finished


def test_trainings_json_keeps_its_format(tmp_path):
    records = [TrainingRecord(1, None, 12, {"loss": 0.25}), TrainingRecord(2, "tune")]
    assert trainings.read(open_folder(str(WRITTEN)), job_hash("u")) == records
    assert trainings.read(open_folder(str(WRITTEN)), job_hash("other")) == []
    owner = OwnerFile(open_folder(str(tmp_path)), job_hash("u"), 3)
    owner.claim()
    for record in reversed(records):
        trainings.write(owner, record)
    assert (tmp_path / "trainings.json").read_text() == (WRITTEN / "trainings.json").read_text()


def test_job_json_keeps_its_format():
    assert job_file.read(open_folder(str(WRITTEN))) == JOB
    assert job_file.read(open_folder(str(WRITTEN / "uid"))) == JOB
    assert job_file.text(JOB) == (WRITTEN / "job.json").read_text()


def test_owner_json_and_done_json_keep_their_format(tmp_path, monkeypatch):
    monkeypatch.setattr(time, "time", lambda: 1700000000.5)
    owner = OwnerFile(open_folder(str(tmp_path)), job_hash("u"), 3)
    owner.claim()
    done_file.write(owner, DoneFile(12, {"loss": 0.25}))
    for written in (WRITTEN, WRITTEN / "uid"):
        assert done_file.read(str(written), job_hash("u")) == DoneFile(12, {"loss": 0.25})
        OwnerFile(open_folder(str(written)), job_hash("u"), 3).check()
    for name in ("owner.json", "done.json"):
        assert (tmp_path / name).read_text() == (WRITTEN / name).read_text()
