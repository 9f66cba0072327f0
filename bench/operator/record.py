"""The result file of a run: flat JSON, with the machine that it was measured on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
RESULT = ROOT / "build" / "results" / "bench-operator.json"
KEPT = ROOT / "bench" / "results"


class Figures:
    """The figures of a run so far, written to disk after every addition, so that a run that is cut short keeps them."""

    def __init__(self, found: dict[str, Any]) -> None:
        self.found = found

    def add(self, found: dict[str, Any]) -> None:
        """Add figures; one of the same name is replaced."""
        self.found |= found
        write(self.found)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Name the running stage in `cut_short` until the block ends without an error."""
        self.add({"cut_short": name})
        yield
        del self.found["cut_short"]
        write(self.found)


def write(figures: dict[str, Any]) -> Path:
    """Write build/results/bench-operator.json."""
    RESULT.parent.mkdir(parents=True, exist_ok=True)
    RESULT.write_text(json.dumps(figures, indent=2) + "\n")
    return RESULT


def last() -> dict[str, Any]:
    """Return the figures of the last run; empty where there is none."""
    return dict(json.loads(RESULT.read_text())) if RESULT.exists() else {}


def keep(figures: dict[str, Any]) -> Path:
    """Copy the figures to the kept results, named by date and number of jobs."""
    day = datetime.now(UTC).strftime("%Y-%m-%d")
    kept = KEPT / f"operator-{day}-{figures['jobs']}-jobs.json"
    kept.write_text(json.dumps(figures, indent=2) + "\n")
    return kept
