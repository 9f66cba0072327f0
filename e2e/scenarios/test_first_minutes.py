"""The first commands of a new user on a machine that lacks something: one sentence, exit code not 0, nothing left.

A busy port and a leftover cluster are in e2e/test_cluster.py, beside the cluster that they are about.
"""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.cluster import ClusterError, providers
from e2e.scenarios.fixtures import Installation

pytestmark = [pytest.mark.e2e, pytest.mark.alone]

ROOT = Path(__file__).resolve().parent.parent.parent
FRAMES = re.compile(r"Traceback|^  File \"", re.MULTILINE)


@pytest.fixture(autouse=True)
def unchanged() -> Iterator[None]:
    """Check that nothing is left outside the test's directory: no namespace, no state."""
    before = traces()
    yield
    assert traces() == before


def traces() -> set[str]:
    directories = (Path("/run/netns"), Path("/var/tmp/dtj"), Path("/sys/fs/cgroup/cpuset"))
    return {
        str(entry)
        for directory in directories
        if directory.is_dir()
        for entry in directory.iterdir()
        if "lock" not in entry.name
    }


def run(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=ROOT, env=os.environ | environment, capture_output=True, text=True, check=False, timeout=120
    )


def on_small_disk(directory: Path, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run with 4 MB of space in `directory`, in a mount namespace that ends with the command."""
    directory.mkdir()
    mounted = f"mount -t tmpfs -o size=4m none {shlex.quote(str(directory))} && exec {shlex.join(command)}"
    return run("unshare", "--mount", "sh", "-c", mounted, **environment)


def sentence(done: subprocess.CompletedProcess[str]) -> str:
    """Return the last line of stderr before make's own."""
    assert done.returncode != 0
    assert not FRAMES.search(done.stderr + done.stdout), done.stderr
    lines = [line for line in done.stderr.splitlines() if line.strip() and not line.startswith("make")]
    return lines[-1]


def without_root(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return run("unshare", "--user", "--map-user=1000", "--map-group=1000", *command, **environment)


def test_no_root_for_the_cluster() -> None:
    assert "root" in sentence(without_root("make", "cluster"))


def test_no_root_for_the_demo(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    said = sentence(without_root("make", "demo", DTJ_RESULTS=str(tmp_path)))
    assert "root" in said
    assert "--provider kind" in said


def test_no_python() -> None:
    done = run("/usr/bin/make", "cluster", "PYTHON=python3.11-which-is-not-there")
    assert "install python3.11" in sentence(done)


def test_no_go_and_no_pip(tmp_path: Path) -> None:
    """A Debian's python3.11 without the package python3-venv has no ensurepip."""
    bare = tmp_path / "python3.11"
    blind = 'import runpy, sys; sys.modules["ensurepip"] = None; sys.argv = sys.argv[1:]'
    start = f'{blind}; runpy.run_path(sys.argv[0], run_name="__main__")'
    bare.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -c {shlex.quote(start)} "$@"\n', encoding="utf-8")
    bare.chmod(0o755)
    tools = tmp_path / "bin"
    tools.mkdir()
    for tool in ("sh", "make", "env"):
        (tools / tool).symlink_to(Path("/usr/bin") / tool)
    environment = [f"PATH={tools}", f"HOME={tmp_path}", f"DTJ_CACHE={tmp_path / 'cache'}"]
    said = sentence(run("/usr/bin/env", "-i", *environment, "make", "demo", f"PYTHON={bare}"))
    assert "python3-venv" in said


def test_full_disk_for_the_cache(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    said = sentence(on_small_disk(cache, "make", "demo", DTJ_CACHE=str(cache), DTJ_RESULTS=str(tmp_path)))
    assert "DTJ_CACHE" in said
    assert list(cache.iterdir()) == []


def test_full_disk_for_the_cluster(tmp_path: Path) -> None:
    state = tmp_path / "state"
    up = (sys.executable, "-m", "e2e.cluster", "--name", "nodisk", "up")
    said = sentence(on_small_disk(state, *up, DTJ_STATE=str(state)))
    assert "DTJ_STATE" in said
    assert str(state) in said


def test_unknown_option(tmp_path: Path) -> None:
    done = run("make", "demo", "DEMO_ARGS=--workers 7", DTJ_RESULTS=str(tmp_path))
    assert done.returncode != 0
    assert "--workers 7" in done.stderr


def test_running_cluster_of_another_size_is_left_alone(installation: Installation) -> None:
    with pytest.raises(ClusterError, match="2 nodes"):
        providers.up(nodes=3)
    assert providers.problems(installation.cluster) == []
