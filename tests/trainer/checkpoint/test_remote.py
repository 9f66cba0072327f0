"""A job whose checkpoints lie where no pod has a path to: on a real HDFS, in buckets."""

import pytest

from dtj_trainer.checkpoint.owner_file import OwnerFile
from dtj_trainer.errors import Fenced
from dtj_trainer.storage import remote_folder
from dtj_trainer.storage.file_system import file_system
from dtj_trainer.storage.folder import read_json
from dtj_trainer.storage.open import open_folder
from tests.trainer.training import launch

pytestmark = pytest.mark.trainer


@pytest.fixture(params=["hdfs", "s3"])
def away(request, monkeypatch):
    """A directory far away, and the environment that leads there."""
    if request.param == "hdfs":
        return request.getfixturevalue("hadoop").uri("/checkpoints/job"), {}
    store = request.getfixturevalue("s3_store")
    for name, value in store.environment.items():
        monkeypatch.setenv(name, value)
    return "s3://logs/checkpoints/job", store.environment


def carried_back(uri, path):
    system, place = file_system(uri, {})
    for each in system.find(place):
        copy = path / each.split(place.strip("/"), 1)[1].lstrip("/")
        copy.parent.mkdir(parents=True, exist_ok=True)
        system.get_file(each, str(copy))


def test_a_job_is_killed_resumes_and_is_done_where_all_files_lie_far_away(away, tmp_path):
    import tensorflow as tf

    directory, leading_there = away
    environment = {**launch.checkpoint(directory, everySteps=3, keep=2), "DTJ_UID": "u", **leading_there}
    killed = launch.run("resume.py", environment={**environment, "TEST_DIE_AT": "8"})
    assert killed.code == -9, killed.output
    model = f"{directory}-model"
    resumed = launch.run("resume.py", environment={**environment, "DTJ_ATTEMPT": "1", "TEST_EXPORT": model})
    assert resumed.code == 0, resumed.output
    assert resumed.said["resumed_from"] in {3, 6}
    assert resumed.said["digest"] == launch.run("resume.py").said["digest"]
    place = open_folder(directory)
    kept = [f"ckpt-{step}.{part}" for step in (39, 40) for part in ("data-00000-of-00001", "index")]
    assert sorted(place.names()) == ["checkpoint", *kept, "job.json", "logs", "owner.json", "trainings.json"]
    assert (read_json(place, "trainings.json") or {})["trainings"][0]["final_step"] == 40
    assert (read_json(place, "job.json") or {})["step"] == 40
    assert open_folder(f"{directory}/logs").names()
    carried_back(model, tmp_path)
    assert tf.saved_model.load(str(tmp_path)).serve(tf.zeros([2, 8])).shape == (2, 1)
    again = launch.run("resume.py", environment={**environment, "DTJ_ATTEMPT": "2"})
    assert again.exit_line == "dtj: training 1 (unnamed) finished at step 40 already"
    assert again.said["digest"] == resumed.said["digest"]


def test_in_a_bucket_files_are_replaced_and_a_replaced_writer_moves_nothing(objects, monkeypatch):
    local = {"anonymous": True, "scheme": "http", "endpoint_override": objects.address}
    monkeypatch.setattr(remote_folder, "file_system", lambda uri, _: file_system(uri, local))
    place = open_folder("gs://logs/job")
    assert place.names() == []
    place.make()
    old, new = OwnerFile(place, "u", 1), OwnerFile(place, "u", 2)
    old.claim()
    with place.temporary("1-2") as temporary:
        (temporary.path / "checkpoint").write_text("late")
        temporary.upload(["checkpoint"])
        old.check()
        new.claim()
        with pytest.raises(FileNotFoundError):
            temporary.commit(["checkpoint"])
    with pytest.raises(Fenced):
        old.check()
    assert place.names() == ["owner.json"]


def test_what_s3_cannot_copy_is_carried_to_its_place_at_once_and_its_index_moved_there(s3_store, monkeypatch):
    monkeypatch.setattr(remote_folder, "COPIED_BYTES", 10)
    for name, value in s3_store.environment.items():
        monkeypatch.setenv(name, value)
    place = open_folder("s3://logs/large")
    place.make()
    parts = ["ckpt-1.data-00000-of-00001", "ckpt-1.index"]
    with place.temporary("1-1") as temporary:
        for part, text in zip(parts, ("more than ten bytes", "index"), strict=True):
            (temporary.path / part).write_text(text)
        temporary.upload(parts)
        (waiting,) = set(place.names()) - {parts[0]}
        assert waiting.endswith(parts[1])
        temporary.commit(parts)
    assert sorted(place.names()) == parts
    assert place.read(parts[0]) == "more than ten bytes"
