"""Parsers of what a pod reports: its progress and its recoveries, in /status and in its termination message.

The pod belongs to the user: whatever it says, nothing may break.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from dtj_operator.api.enums import Cause, Role
from dtj_operator.api.status import LastRecovery, Progress
from dtj_operator.api.trainer_contract import ExitClass
from dtj_operator.api.wire_model import parse_time
from dtj_operator.reconcile.state.snapshot import ReportedRecoveries

if TYPE_CHECKING:
    from datetime import datetime


METRICS_KEPT = 32
"""So many metrics of a pod are kept."""
COUNTS_BELOW = 2**53
"""The API keeps numbers exactly up to here."""
CAUSES = {
    **{str(cause): cause for cause in Cause},
    ExitClass.USER_ERROR: Cause.USER_ERROR,
    ExitClass.PREFLIGHT_FAILED: Cause.PREFLIGHT_FAILED,
    ExitClass.PEER_LOST: Cause.PEER_LOST,
    ExitClass.FENCED: Cause.PEER_LOST,
    ExitClass.STALLED: Cause.STALLED,
    ExitClass.KILLED: Cause.KILLED,
    ExitClass.OUT_OF_MEMORY: Cause.OUT_OF_MEMORY,
    ExitClass.PREEMPTED: Cause.PREEMPTED,
}
"""The cause of a recovery in place, by the word of the trainer."""


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


def read_final_progress(told: dict[str, Any], ended_at: datetime) -> Progress | None:
    """Return what a termination message says, as status keeps it; None when it says nothing of use."""
    return read_progress({**told, "lastCheckpointStep": told.get("checkpointStep")}, ended_at)


def read_recoveries(answer: dict[str, Any], pod_uid: str, now: datetime) -> ReportedRecoveries | None:
    """Return the recoveries in place that an answer or a termination message tells of; None when there were none."""
    told = answer.get("recoveries")
    count = parse_count(told.get("count")) if isinstance(told, dict) else None
    last = told.get("last") if isinstance(told, dict) else None
    if not count or not isinstance(last, dict):
        return None
    role, at = last.get("role"), last.get("time")
    seconds = parse_number(last.get("seconds")) or 0.0
    recovery = LastRecovery(
        time=min((parse_time(at) if isinstance(at, str) else None) or now, now),
        seconds=max(0.0, round(seconds, 3)),
        cause=CAUSES.get(str(last.get("cause")), Cause.UNKNOWN),
        role=role if isinstance(role, str) and role in set(Role) else "",
        index=parse_count(last.get("index")) or 0,
    )
    return ReportedRecoveries(pod_uid, count, recovery)


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _metrics(told: object) -> dict[str, float] | None:
    if not isinstance(told, dict):
        return None
    read = ((valid_text(str(name)[:63]), parse_number(value)) for name, value in list(told.items())[:METRICS_KEPT])
    return {name: value for name, value in read if value is not None}
