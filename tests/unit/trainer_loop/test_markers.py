"""Who may write, and that all is done."""

import os

import pytest

from dtj_trainer.errors import Fenced
from dtj_trainer.state.files import write_whole
from dtj_trainer.state.markers import Done, Owner, finish, finished


def test_a_later_attempt_fences_the_earlier_one(tmp_path):
    old, new = Owner(tmp_path, "u", 1), Owner(tmp_path, "u", 2)
    old.claim()
    old.check()
    new.claim()
    with pytest.raises(Fenced, match="attempt 2 of this job owns"):
        old.check()
    with pytest.raises(Fenced):
        old.claim()
    new.check()


def test_another_jobs_directory_is_taken_over_and_then_belongs_to_one(tmp_path):
    before, after = Owner(tmp_path, "a", 9), Owner(tmp_path, "b", 1)
    before.claim()
    after.claim()
    with pytest.raises(Fenced, match="now written by another job"):
        before.check()


def test_only_this_jobs_end_counts(tmp_path):
    assert finished("", "u") is None
    assert finished(str(tmp_path), "u") is None
    finish(str(tmp_path), "u", Done(7, {"loss": 0.5}))
    assert finished(str(tmp_path), "u") == Done(7, {"loss": 0.5})
    assert finished(str(tmp_path), "other") is None


def test_a_small_file_is_replaced_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "note"
    write_whole(path, "old")

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_whole(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
