"""job.json: what a checkpoint was made with, and which changes are refused."""

import pytest

from dtj_trainer.checkpoint import job_file
from dtj_trainer.checkpoint.job_file import JobFile
from dtj_trainer.errors import PreflightFailed
from dtj_trainer.storage.open import open_folder


def a_job(**changes: object) -> JobFile:
    values = {
        "step": 3, "epoch": 0, "examples": 72, "strategy": "Mirrored", "replicas": 2, "workers": 1, "seed": 1,
        "accumulate": 1, "global_batch": 24, "global_batch_given": 24, "job": "u", "attempt": 1, "versions": {},
    }  # fmt: skip
    return JobFile(**{**values, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "changes",
    [
        {"replicas": 4, "workers": 2, "strategy": "MultiWorkerMirrored"},
        {"global_batch": 48, "global_batch_given": None},
        {"job": "other"},
    ],
)
def test_a_checkpoint_goes_on_with_other_replicas_within_the_family(changes):
    job_file.check(a_job(), a_job(**changes), "here")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"strategy": "ParameterServer"}, "strategy Mirrored and this job has ParameterServer"),
        ({"seed": 2}, "seed 1 and this job has 2; set it back to 1, or use another checkpoint directory"),
        ({"global_batch": 48, "global_batch_given": 48}, "batch_size 24 and this job has 48"),
    ],
)
def test_a_checkpoint_that_would_train_something_else_is_refused(changes, words):
    with pytest.raises(PreflightFailed, match=words):
        job_file.check(a_job(), a_job(**changes), "here")


def test_a_job_file_is_read_as_it_was_written(tmp_path):
    place, file = open_folder(str(tmp_path)), tmp_path / job_file.NAME
    assert job_file.read(place) is None
    file.write_text(job_file.text(a_job()))
    assert job_file.read(place) == a_job()
    file.write_text("{")
    assert job_file.read(place) is None
