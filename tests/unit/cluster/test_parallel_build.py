"""Programs are built beside the images, and the build ends with its block."""

import os
import sys
import time
from pathlib import Path

import pytest

from e2e.cluster import parallel_build


def test_what_the_build_says_is_told_and_its_end_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    told: list[str] = []
    monkeypatch.setattr(parallel_build, "print_line", told.append)
    work = f"import sys, pathlib; print('built', file=sys.stderr); pathlib.Path({str(tmp_path / 'made')!r}).touch()"
    with parallel_build.running_beside([sys.executable, "-c", work]):
        pass
    assert told == ["built"]
    assert (tmp_path / "made").exists()


def test_a_failure_of_the_body_ends_the_build(tmp_path: Path):
    mark = tmp_path / "pid"
    work = f"import os, pathlib, time; pathlib.Path({str(mark)!r}).write_text(f'{{os.getpid()}} '); time.sleep(60)"
    with pytest.raises(ValueError, match="no base image"):
        _fail_once_there(work, mark)
    with pytest.raises(ProcessLookupError):
        os.kill(int(mark.read_text()), 0)


def _fail_once_there(work: str, mark: Path) -> None:
    with parallel_build.running_beside([sys.executable, "-c", work]):
        while not (mark.exists() and mark.read_text().endswith(" ")):
            time.sleep(0.01)
        raise ValueError("no base image")
