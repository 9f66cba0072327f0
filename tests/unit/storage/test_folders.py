"""A folder behind a URI behaves as one on a disk: whole files, in order, and nothing from those who were replaced."""

import errno
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from dtj_trainer.checkpoint import done_file
from dtj_trainer.checkpoint.checkpointer import Checkpointer
from dtj_trainer.checkpoint.done_file import DoneFile
from dtj_trainer.checkpoint.owner_file import OwnerFile
from dtj_trainer.errors import Fenced, PeerLost, PreflightFailed
from dtj_trainer.storage import local_folder
from dtj_trainer.storage.folder import Folder, read_json, write_json
from dtj_trainer.storage.open import open_folder


@pytest.fixture(params=["", "local://"])
def place(request, tmp_path) -> Folder:
    made = open_folder(f"{request.param}{tmp_path}/state")
    assert made.names() == []
    assert made.read("note") is None
    made.make()
    made.make()
    return made


def test_files_are_replaced_and_nothing_is_left_beside_them(place):
    for number in (1, 2):
        write_json(place, "note", {"number": number})
    assert read_json(place, "note") == {"number": 2}
    assert place.names() == ["note"]


def test_a_checkpoint_is_moved_in_read_and_dropped(place):
    names = ["ckpt-1.data-00000-of-00001", "ckpt-1.index"]
    with place.temporary("1") as temporary:
        for name in names:
            (temporary.path / name).write_text(name)
        temporary.upload(names)
        assert not set(names) & set(place.names())
        temporary.commit(names)
    with place.download("ckpt-1") as prefix:
        for name in names:
            with open(prefix.removesuffix("ckpt-1") + name) as file:  # noqa: PTH123 - a prefix is no path
                assert file.read() == name
    with place.temporary("2") as temporary:
        temporary.delete([*names, "never-there"])
    assert place.names() == []


def test_who_was_replaced_between_its_last_look_and_its_move_changes_nothing(place):
    old, new = OwnerFile(place, "u", 1), OwnerFile(place, "u", 2)
    old.claim()
    with place.temporary("1-2") as temporary:
        (temporary.path / "checkpoint").write_text("late")
        temporary.upload(["checkpoint"])
        old.check()
        new.claim()
        with pytest.raises(FileNotFoundError):
            temporary.commit(["checkpoint"])
    with pytest.raises(Fenced, match=r"attempt 2 of this job owns .*/state; attempt 1 writes no more"):
        old.check()
    done_file.write(new, DoneFile(7, {"loss": 0.5}))
    assert done_file.read(place.name, "u") == DoneFile(7, {"loss": 0.5})
    assert sorted(place.names()) == ["done.json", "owner.json"]


def test_a_uri_without_a_driver_is_one_sentence():
    with pytest.raises(PreflightFailed, match=r"^abfs://bucket/job needs a driver \(.*\); install it in the image$"):
        open_folder("abfs://bucket/job")
    with pytest.raises(PreflightFailed, match="is no place for checkpoints"):
        open_folder("nowhere://bucket/job")


def test_a_file_that_is_there_and_cannot_be_read_is_not_one_that_is_not_there(tmp_path, monkeypatch):
    """Else a job whose volume fails for a moment begins at step 0, and its next saves remove what it had."""
    monkeypatch.setattr(local_folder, "READ_SECONDS", 0.0)
    (tmp_path / "checkpoint").symlink_to("checkpoint")  # reading it fails with ELOOP, as a volume may with EIO
    with pytest.raises(PeerLost, match="checkpoint cannot be read"):
        open_folder(str(tmp_path)).read("checkpoint")


def test_what_can_be_read_the_next_time_is_read(tmp_path, monkeypatch):
    failures = [OSError(errno.ESTALE, "Stale file handle")]
    read = Path.read_text

    def sometimes(path: Path, **how: Any) -> str:
        if failures:
            raise failures.pop()
        return read(path, **how)

    (tmp_path / "checkpoint").write_text("it")
    monkeypatch.setattr(local_folder, "READ_SECONDS", 0.0)
    monkeypatch.setattr(Path, "read_text", sometimes)
    assert open_folder(str(tmp_path)).read("checkpoint") == "it"


def test_an_owner_whose_note_cannot_be_read_is_not_replaced_and_does_not_go_on(tmp_path, monkeypatch):
    place = open_folder(str(tmp_path))
    old, new = OwnerFile(place, "u", 1), OwnerFile(place, "u", 2)
    old.claim()
    new.claim()
    (tmp_path / "owner.json").unlink()
    (tmp_path / "owner.json").symlink_to("owner.json")
    monkeypatch.setattr(local_folder, "READ_SECONDS", 0.0)
    with pytest.raises(PeerLost):
        old.check()
    with pytest.raises(PeerLost):
        old.claim()


def save(checkpoints: Checkpointer) -> None:
    """What a save does when the values are taken."""

    def write(prefix: Path) -> None:
        for part in ("data-00000-of-00001", "index"):
            Path(f"{prefix}.{part}").write_text(part)

    with ExitStack() as stack:
        temporary = stack.enter_context(checkpoints.folder.temporary("1-5"))
        checkpoints._finish_save(stack.pop_all(), temporary, 5, write, {}, lambda: None)


def owned(directory: str) -> Checkpointer:
    checkpoints = Checkpointer(directory, 2, OwnerFile(open_folder(directory), "u", 1))
    checkpoints.claim()
    return checkpoints


@pytest.mark.parametrize("number", [errno.ESTALE, errno.EIO, errno.ENOTCONN])
def test_a_volume_that_fails_for_a_moment_ends_no_job(tmp_path, monkeypatch, number):
    checkpoints = owned(str(tmp_path))

    def fails(path: Path, *_: Any, **__: Any) -> None:
        raise OSError(number, "it fails", str(path))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", fails)
        with pytest.raises(PeerLost, match=r"cannot be written \(.*it fails.*\); look at its volume or store"):
            save(checkpoints)
        with pytest.raises(PeerLost, match="cannot be written"):
            checkpoints.claim()
        with pytest.raises(PeerLost, match="cannot be written"):
            checkpoints.write_done_file(DoneFile(5))
    save(checkpoints)
    assert checkpoints.all_steps() == [5]


def test_a_store_that_moves_a_file_and_loses_its_answer_ends_no_job(tmp_path, monkeypatch):
    checkpoints = owned(f"local://{tmp_path}/state")
    system = checkpoints.folder._system  # type: ignore[attr-defined]
    moved, lost = system.mv, [ConnectionError("reset")]

    def once_without_an_answer(old: str, new: str) -> None:
        moved(old, new)
        if lost:
            raise lost.pop()

    monkeypatch.setattr(system, "mv", once_without_an_answer)
    with pytest.raises(PeerLost, match=r"state cannot be written \(.*\); look at its volume or store"):
        save(checkpoints)
    save(checkpoints)
    assert checkpoints.all_steps() == [5]
