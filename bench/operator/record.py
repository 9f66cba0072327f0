"""What a run found, as flat JSON, with the machine it was found on."""

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
    """What a run has found so far. It is on disk after every addition, so that a run that is cut short leaves it."""

    def __init__(self, found: dict[str, Any]) -> None:
        self.found = found

    def add(self, found: dict[str, Any]) -> None:
        """Find more; what was known under the same name is replaced."""
        self.found |= found
        write(self.found)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Until this is left in peace, `cut_short` says where the run was."""
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
    """What was written last; nothing where nothing was."""
    return dict(json.loads(RESULT.read_text())) if RESULT.exists() else {}


def keep(figures: dict[str, Any]) -> Path:
    """A copy among the kept results, named by the day and the number of jobs."""
    day = datetime.now(UTC).strftime("%Y-%m-%d")
    kept = KEPT / f"operator-{day}-{figures['jobs']}-jobs.json"
    kept.write_text(json.dumps(figures, indent=2) + "\n")
    return kept
