"""A broken checkpoint is set aside, and the one before is used."""

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.trainer.training import launch

pytestmark = pytest.mark.trainer

KEPT = (3, 6, 9)
Break = Callable[[Path, str], object]


def index(folder: Path, name: str) -> Path:
    return folder / f"{name}.index"


def data(folder: Path, name: str) -> Path:
    return folder / f"{name}.data-00000-of-00001"


def shorten(file: Path) -> None:
    os.truncate(file, file.stat().st_size - 40)


def garble(file: Path) -> None:
    content = file.read_bytes()
    file.write_bytes(content[:100] + b"\x00garbage\xff" + content[109:])


BREAKS: dict[str, Break] = {
    "short data": lambda folder, name: shorten(data(folder, name)),
    "garbage in data": lambda folder, name: garble(data(folder, name)),
    "no data": lambda folder, name: data(folder, name).unlink(),
    "one shard of two": lambda folder, name: data(folder, name).rename(folder / f"{name}.data-00000-of-00002"),
    "short index": lambda folder, name: shorten(index(folder, name)),
    "garbage in index": lambda folder, name: garble(index(folder, name)),
    "empty index": lambda folder, name: os.truncate(index(folder, name), 0),
    "no index": lambda folder, name: index(folder, name).unlink(),
    "no file at all": lambda folder, name: list(map(Path.unlink, folder.glob(f"{name}.*"))),
}


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with three checkpoints of a job that was asked to leave."""
    folder = tmp_path_factory.mktemp("three")
    environment = launch.checkpoint(folder, everySteps=3, keep=3)
    ended = launch.run("resume.py", environment={**environment, "TEST_LEAVE_AT": "9"})
    assert (ended.code, ended.exit_line) == (42, "dtj: asked to leave; saved step 9"), ended.output
    return folder


@pytest.mark.parametrize(
    ("kind", "workers", "scheme"),
    [
        *((kind, 1, "") for kind in BREAKS),
        ("short data", 2, ""),
        ("no data", 2, ""),
        ("garbage in index", 1, "local://"),
    ],
)
def test_a_broken_newest_checkpoint_is_named_and_set_aside_and_the_one_before_is_used(
    kind: str, workers: int, scheme: str, three: Path, tmp_path: Path
):
    folder = tmp_path / "state"
    shutil.copytree(three, folder)
    BREAKS[kind](folder, "ckpt-9")
    left = sorted(path.name.removeprefix("ckpt-9.") for path in folder.glob("ckpt-9.*"))
    environment = launch.checkpoint(f"{scheme}{folder}", everySteps=0, keep=3)  # type: ignore[arg-type]
    ended = launch.run_workers(workers, "resume.py", environment=environment)
    assert [each.code for each in ended] == [0] * workers, ended[0].output + ended[-1].output
    assert [each.said["resumed_from"] for each in ended] == [6] * workers
    named = [line for each in ended for line in each.output.splitlines() if "is broken" in line]
    assert len(named) == 1, named
    sentence = rf"dtj: the checkpoint {scheme}{folder}/ckpt-9 is broken \(.+\); it is set aside as broken-ckpt-9, "
    assert re.match(f"{sentence}and training continues from ckpt-6", named[0])
    assert sorted(path.name.removeprefix("broken-ckpt-9.") for path in folder.glob("broken-*")) == left
    assert sorted(folder.glob("ckpt-*.index")) == [folder / f"ckpt-{step}.index" for step in (3, 40, 6)]


@pytest.mark.parametrize("content", [b"", b"\xff\xfe garbage", b'model_checkpoint_path: "ckpt-12"\nall_mod', None])
def test_a_broken_file_that_lists_the_checkpoints_is_made_again_from_them(
    content: bytes | None, three: Path, tmp_path: Path
):
    folder = tmp_path / "state"
    shutil.copytree(three, folder)
    before = (folder / "checkpoint").read_text()
    if content is None:
        (folder / "checkpoint").unlink()
    else:
        (folder / "checkpoint").write_bytes(content)
    asked = {**launch.checkpoint(folder, keep=3), "TEST_DIE_AT": "1"}
    assert launch.run("resume.py", environment=asked).code == -9
    assert (folder / "checkpoint").read_text() == before
    assert not list(folder.glob("broken-*"))


@pytest.mark.parametrize("workers", [1, 2])
def test_where_no_checkpoint_is_whole_the_job_ends_in_one_sentence_each_time(workers: int, three: Path, tmp_path: Path):
    folder = tmp_path / "state"
    shutil.copytree(three, folder)
    for step in KEPT:
        BREAKS["short data"](folder, f"ckpt-{step}")
    for _ in range(2):
        ended = launch.run_workers(workers, "resume.py", environment=launch.checkpoint(folder, keep=3))
        assert [each.code for each in ended] == [1] * workers, ended[0].output + ended[-1].output
        for each in ended:
            assert re.fullmatch(
                rf"dtj: no checkpoint in {folder} is whole \(ckpt-9: .+, ckpt-6: .+, ckpt-3: .+\); "
                "put a whole checkpoint there, or use another checkpoint directory",
                each.exit_line,
            )
    assert not list(folder.glob("broken-*"))
