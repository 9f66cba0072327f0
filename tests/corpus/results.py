"""The results of the corpus: build/results/corpus.json, written after each job, and the last one that was kept."""

import json
import subprocess
from collections.abc import Iterable
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bench.machine import machine
from tests.corpus.catalogue import Program
from tests.corpus.jobs import Run

ROOT = Path(__file__).resolve().parents[2]
RESULT = ROOT / "build" / "results" / "corpus.json"
KEPT = ROOT / "bench" / "results" / "corpus.json"
COUNTED = ("1", "2")
"""A program counts when these jobs train what Keras trains."""
CONTROL = "control"
"""Names the job that trains a program without the reason for its band."""
GOOD = {"equal", "in its band"}
PACKAGES = ("tensorflow-cpu", "keras", "numpy")


class Results:
    """What each job of each program trained, those of earlier calls too; programs that were never run have none."""

    def __init__(self, every: Iterable[Program], path: Path = RESULT) -> None:
        before = read(path)
        self._path = path
        self._place = {key: value for key, value in machine().items() if key != "speed_seconds"}
        self._versions = {name: version(name) for name in PACKAGES}
        self.revision = _revision()
        self.programs: dict[str, dict[str, Any]] = {
            program.name: {
                "family": program.family,
                "one_line": program.own_form is None,
                "runs": before.get(program.name, {}).get("runs", {}),
            }
            for program in every
        }

    def has(self, program: Program, job: str) -> bool:
        """Return whether this version of the sources has run the job already."""
        run = self.programs[program.name]["runs"].get(job)
        return run is not None and run["revision"] == self.revision

    def add(self, program: Program, job: str, run: Run) -> None:
        """Add what a job trained, and write the file."""
        self.programs[program.name]["runs"][job] = asdict(run) | {"date": _now(), "revision": self.revision}
        self.write()

    def write(self) -> None:
        told = {"date": _now(), **self._place, "versions": self._versions, **counted(self.programs)}
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_text(json.dumps(told | {"programs": self.programs}, indent=2) + "\n")

    def keep(self) -> None:
        """Copy the file to the one that the table of the docs is made from."""
        KEPT.write_text(self._path.read_text())


def read(path: Path) -> dict[str, Any]:
    """Return the programs of a file of results, by name; none if there is no file."""
    found: dict[str, Any] = json.loads(path.read_text())["programs"] if path.exists() else {}
    return found


def good(run: dict[str, Any]) -> bool:
    return run["outcome"] in GOOD


def counted(found: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the figures: how many programs train the same with one and two workers; which share by one line."""
    same = [one for one in found.values() if all(good(one["runs"].get(job, {"outcome": ""})) for job in COUNTED)]
    by_one_line = [one for one in same if one["one_line"]]
    return {"corpus_programs": len(same), "corpus_one_line": round(len(by_one_line) / max(1, len(same)), 3)}


def _now() -> str:
    return f"{datetime.now(UTC):%Y-%m-%d %H:%M}"


def _revision() -> str:
    """Return the commit of the sources, with a mark if they were changed since; "unknown" without git."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=10", "--exclude=*"]
    try:
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
