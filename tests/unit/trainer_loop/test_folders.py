"""A folder behind a URI behaves as one on a disk: whole files, in order, and nothing from those who were replaced."""

import pytest

from dtj_trainer.errors import Fenced, PreflightFailed
from dtj_trainer.state.folder import Folder, folder, read_json, write_json
from dtj_trainer.state.markers import Done, Owner, finished


@pytest.fixture(params=["", "local://"])
def place(request, tmp_path) -> Folder:
    made = folder(f"{request.param}{tmp_path}/state")
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
    with place.aside("1") as aside:
        for name in names:
            (aside.path / name).write_text(name)
        aside.ready(names)
        assert not set(names) & set(place.names())
        aside.move(names)
    with place.fetched("ckpt-1") as prefix:
        for name in names:
            with open(prefix.removesuffix("ckpt-1") + name) as file:  # noqa: PTH123 - a prefix is no path
                assert file.read() == name
    with place.aside("2") as aside:
        aside.drop([*names, "never-there"])
    assert place.names() == []


def test_who_was_replaced_between_its_last_look_and_its_move_changes_nothing(place):
    old, new = Owner(place, "u", 1), Owner(place, "u", 2)
    old.claim()
    with place.aside("1-2") as aside:
        (aside.path / "checkpoint").write_text("late")
        aside.ready(["checkpoint"])
        old.check()
        new.claim()
        with pytest.raises(FileNotFoundError):
            aside.move(["checkpoint"])
    with pytest.raises(Fenced, match=r"attempt 2 of this job owns .*/state; attempt 1 writes no more"):
        old.check()
    new.finish(Done(7, {"loss": 0.5}))
    assert finished(place.name, "u") == Done(7, {"loss": 0.5})
    assert sorted(place.names()) == ["done.json", "owner.json"]


def test_a_uri_without_a_driver_is_one_sentence():
    with pytest.raises(PreflightFailed, match=r"^abfs://bucket/job needs a driver \(.*\); install it in the image$"):
        folder("abfs://bucket/job")
    with pytest.raises(PreflightFailed, match="is no place for checkpoints"):
        folder("nowhere://bucket/job")
