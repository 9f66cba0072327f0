"""Which process runs which tests."""

import os
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from tools.groups import ASIDE, GROUPS

ROOT = Path(__file__).parents[3]
WAITS = next(place for place, group in GROUPS.items() if group == ASIDE)
TESTS = "import pytest\n@pytest.mark.parametrize('number', range(8))\ndef test_it(number): pass\n"


def ran(folder: Path, processes: int) -> dict[str, set[str]]:
    """Run pytest in `folder`; returns the tests by the process that ran them."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-v",
        "-p",
        "tools.groups",
        "-p",
        "no:cacheprovider",
        "-n",
        str(processes),
    ]
    ended = subprocess.run(
        command, cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True, capture_output=True, text=True
    )
    found = defaultdict(set)
    for process, test in re.findall(r"\[(gw\d+)\] .* PASSED (\S+)", ended.stdout):
        found[process].add(test)
    return found


def write(folder: Path) -> set[str]:
    """Write tests of the group that has a process of its own, and others; returns their ids."""
    (folder / "pytest.ini").write_text("[pytest]\n")
    others = [f"test_other_{letter}.py" for letter in "abc"]
    for name in (WAITS, *others):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(TESTS)
    return {f"{name}::test_it[{number}]" for name in (WAITS, *others) for number in range(8)}


def test_who_has_the_tests_that_are_run_aside_has_no_others_and_none_is_lost(tmp_path):
    tests = write(tmp_path)
    found = ran(tmp_path, 3)
    assert set.union(*found.values()) == tests
    (aside,) = (had for had in found.values() if any(test.startswith(WAITS) for test in had))
    assert aside == {test for test in tests if test.startswith(WAITS)}


def test_a_process_alone_runs_all(tmp_path):
    tests = write(tmp_path)
    assert set.union(*ran(tmp_path, 1).values()) == tests
