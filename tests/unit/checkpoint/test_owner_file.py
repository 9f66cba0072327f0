"""Who may write, and that all is done."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from dtj_trainer.checkpoint import done_file
from dtj_trainer.checkpoint.done_file import DoneFile
from dtj_trainer.checkpoint.owner_file import NAME, OwnerFile
from dtj_trainer.errors import Fenced
from dtj_trainer.storage.folder import write_json
from dtj_trainer.storage.local_folder import LocalFolder
from dtj_trainer.storage.open import open_folder


def owner(directory: Path, job: str, attempt: int) -> OwnerFile:
    return OwnerFile(open_folder(str(directory)), job, attempt)


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


def test_a_late_claim_of_an_earlier_attempt_is_overwritten_before_the_next_commit(tmp_path):
    old, new = owner(tmp_path, "u", 1), owner(tmp_path, "u", 2)
    new.claim()
    write_json(old.folder, NAME, {"job": "u", "attempt": 1})  # it had read the file before
    with old.folder.temporary("1-1") as late, new.folder.temporary("2-1") as temporary:
        for each, text in ((late, "old"), (temporary, "new")):
            (each.path / "checkpoint").write_text(text)
            each.upload(["checkpoint"])
        old.confirm(late)
        new.confirm(temporary)
        temporary.commit(["checkpoint"])
        with pytest.raises(FileNotFoundError):
            late.commit(["checkpoint"])
    assert (tmp_path / "checkpoint").read_text() == "new"
    with pytest.raises(Fenced):
        old.check()


class Stepped(threading.Thread):
    """An attempt that claims and saves, one step at a time: read the claim, write it, confirm a save, commit it."""

    def __init__(self, directory: Path, attempt: int, saves: int, events: list[str]) -> None:
        super().__init__(daemon=True)
        self.folder = Paused(str(directory), self.pause)
        self.owner = OwnerFile(self.folder, "u", attempt)
        self.saves = saves
        self.events = events
        self.ended = False
        self.ended_by: Exception | None = None
        self._go, self._done = threading.Semaphore(0), threading.Semaphore(0)

    def run(self) -> None:
        self._go.acquire()
        try:
            self.owner.claim()
            self.note("claimed")
            self.pause()
            for number in range(self.saves):
                with self.folder.temporary(f"{self.owner.attempt}-{number}") as temporary:
                    (temporary.path / "checkpoint").write_text(f"{self.owner.attempt}")
                    temporary.upload(["checkpoint"])
                    self.owner.confirm(temporary)
                    self.note("confirmed")
                    self.pause()
                    temporary.commit(["checkpoint"])
                    self.note("committed")
                self.pause()
        except (Fenced, FileNotFoundError) as error:
            self.ended_by = error
        self.ended = True
        self._done.release()

    def note(self, what: str) -> None:
        self.events.append(f"{self.owner.attempt} {what}")

    def pause(self) -> None:
        self._done.release()
        self._go.acquire()

    def step(self) -> None:
        if not self.ended:
            self._go.release()
            self._done.acquire()


class Paused(LocalFolder):
    """A folder whose writer pauses before it writes its first owner.json."""

    def __init__(self, directory: str, pause: Callable[[], None]) -> None:
        super().__init__(directory)
        self._pause: Callable[[], None] | None = pause

    @contextmanager
    def temporary(self, label: str) -> Iterator[Any]:
        if label == NAME and self._pause is not None:
            pause, self._pause = self._pause, None
            pause()
        with super().temporary(label) as made:
            yield made


OLD_STEPS, NEW_STEPS = 4, 6


def test_in_each_interleaving_an_older_attempt_commits_nothing_once_the_newer_one_has_met_its_claim(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(os, "fsync", lambda _: None)  # 210 interleavings
    for number, olds in enumerate(combinations(range(OLD_STEPS + NEW_STEPS), OLD_STEPS)):
        directory = tmp_path / str(number)
        directory.mkdir()
        events: list[str] = []
        old, new = Stepped(directory, 1, 1, events), Stepped(directory, 2, 2, events)
        for thread in (old, new):
            thread.start()
        for turn in range(OLD_STEPS + NEW_STEPS):
            (old if turn in olds else new).step()
        since_claim = events[events.index("1 claimed") :] if "1 claimed" in events else []
        since_met = since_claim[since_claim.index("2 confirmed") :] if "2 confirmed" in since_claim else []
        assert "1 committed" not in since_met, olds
        assert not isinstance(new.ended_by, Fenced), olds
        with new.folder.temporary("2-9") as temporary:  # the next save, whatever was before
            (temporary.path / "checkpoint").write_text("next")
            temporary.upload(["checkpoint"])
            new.owner.confirm(temporary)
            temporary.commit(["checkpoint"])
        assert (directory / "checkpoint").read_text() == "next", olds
        with pytest.raises(Fenced):
            old.owner.check()


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
