"""Who may write, and that all is done."""

import os
from pathlib import Path

import pytest

from dtj_trainer.checkpoint import done_file
from dtj_trainer.checkpoint.done_file import DoneFile
from dtj_trainer.checkpoint.owner_file import OwnerFile
from dtj_trainer.errors import Fenced
from dtj_trainer.storage.folder import write_json
from dtj_trainer.storage.open import open_folder


def owner(directory: Path, uid: str, attempt: int) -> OwnerFile:
    return OwnerFile(open_folder(str(directory)), uid, attempt)


def test_a_later_attempt_fences_the_earlier_one(tmp_path):
    old, new = owner(tmp_path, "u", 1), owner(tmp_path, "u", 2)
    old.claim()
    old.check()
    new.claim()
    with pytest.raises(Fenced, match="attempt 2 of this job owns"):
        old.check()
    with pytest.raises(Fenced):
        old.claim()
    new.check()


def test_a_writer_that_slept_after_its_last_look_has_nothing_left_to_move(tmp_path):
    old, new = owner(tmp_path, "u", 1), owner(tmp_path, "u", 2)
    old.claim()
    (tmp_path / "ckpt-1.index").write_text("kept")
    with old.folder.temporary("1-2") as temporary:
        (temporary.path / "checkpoint").write_text("late")
        temporary.upload(["checkpoint"])
        old.check()
        new.claim()
        with pytest.raises(FileNotFoundError):
            temporary.commit(["checkpoint"])
        temporary.delete(["ckpt-1.index"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ckpt-1.index", "owner.json"]


def test_another_jobs_directory_is_taken_over_and_then_belongs_to_one(tmp_path):
    before, after = owner(tmp_path, "a", 9), owner(tmp_path, "b", 1)
    before.claim()
    after.claim()
    with pytest.raises(Fenced, match="now written by another job"):
        before.check()


def test_only_this_jobs_end_counts(tmp_path):
    assert done_file.read("", "u") is None
    assert done_file.read(str(tmp_path), "u") is None
    done_file.write(owner(tmp_path, "u", 1), DoneFile(7, {"loss": 0.5}))
    assert done_file.read(str(tmp_path), "u") == DoneFile(7, {"loss": 0.5})
    assert done_file.read(str(tmp_path), "other") is None


def test_a_small_file_is_replaced_whole_or_not_at_all(tmp_path, monkeypatch):
    place = open_folder(str(tmp_path))
    write_json(place, "note", {"old": 1})

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_json(place, "note", {"new": 1})
    assert (tmp_path / "note").read_text() == '{\n "old": 1\n}\n'
    assert list(tmp_path.iterdir()) == [tmp_path / "note"]
