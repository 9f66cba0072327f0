"""Parsers of what a pod reports: its answer to /status, and its termination message.

The pod belongs to the user: whatever it says, nothing may break.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from dtj_operator.api.status import Progress

if TYPE_CHECKING:
    from datetime import datetime


METRICS_KEPT = 32
"""So many metrics of a pod are kept."""
COUNTS_BELOW = 2**53
"""The API keeps numbers exactly up to here."""


def parse_termination_message(message: str) -> dict[str, Any]:
    """Return the termination message of our trainer; empty for anybody else's."""
    if not message.startswith("{"):
        return {}
    try:
        told = json.loads(message)
    except (ValueError, RecursionError):
        return {}
    return told if isinstance(told, dict) else {}


def parse_count(value: object) -> int | None:
    """Return a count; None for all else."""
    return value if type(value) is int and 0 <= value < COUNTS_BELOW else None


def parse_number(value: object) -> float | None:
    """Return a finite number; None for all else."""
    if type(value) in {int, float} and abs(value) <= sys.float_info.max:  # type: ignore[arg-type]
        return float(value)  # type: ignore[arg-type]
    return None


def valid_text(text: str) -> str:
    """Return the text without halves of characters, which JSON can say and UTF-8 cannot."""
    return text.encode(errors="replace").decode()


def read_progress(answer: dict[str, Any], now: datetime) -> Progress | None:
    """Return what a pod's /status says, as status keeps it; None when it says nothing of use.

    Values of the wrong type and numbers that are not finite are left out.
    """
    counts = {name: parse_count(answer.get(name)) for name in ("step", "totalSteps", "lastCheckpointStep")}
    numbers = {
        name: parse_number(answer.get(name)) for name in ("epoch", "stepsPerSecond", "examplesPerSecond", "loss")
    }
    values = _given(**counts, **numbers, metrics=_metrics(answer.get("metrics")))
    return Progress.model_validate(values | {"updatedAt": now}) if values else None


def final_values(told: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of Progress that a termination message has."""
    return _given(
        step=parse_count(told.get("step")),
        last_checkpoint_step=parse_count(told.get("checkpointStep")),
        metrics=_metrics(told.get("metrics")),
    )


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _metrics(told: object) -> dict[str, float] | None:
    if not isinstance(told, dict):
        return None
    read = ((valid_text(str(name)[:63]), parse_number(value)) for name, value in list(told.items())[:METRICS_KEPT])
    return {name: value for name, value in read if value is not None}
