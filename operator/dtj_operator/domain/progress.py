"""How far the training is: what the success pod said last, and what it said at its end."""

from __future__ import annotations

import json
import math
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from dtj_operator.api.status import Progress
from dtj_operator.domain.failure import ended

if TYPE_CHECKING:
    from datetime import datetime

    from dtj_operator.domain.draft import Draft
    from dtj_operator.domain.slots import Slot

EVERY = timedelta(seconds=30)
"""The shortest time between two writes of progress alone."""
METRICS_KEPT = 32


def reported(draft: Draft) -> None:
    """Take over the latest answer of the success pod, at most every 30 s."""
    latest, known = draft.snapshot.progress, draft.progress
    if latest is None or latest.updated_at is None:
        return
    if known and known.updated_at and latest.updated_at < known.updated_at + EVERY:
        return
    draft.progress = latest


def final_progress(draft: Draft, slot: Slot) -> Progress | None:
    """The last values from the termination message of the pod that ended the job."""
    pod = draft.pods.get(slot)
    end = ended(pod, draft.main(slot)) if pod else None
    told = _decoded(end.message) if end else {}
    known = draft.progress or Progress()
    values: dict[str, Any] = {}
    if type(told.get("step")) is int:
        values["step"] = told["step"]
    if type(told.get("checkpointStep")) is int:
        values["last_checkpoint_step"] = told["checkpointStep"]
    if isinstance(told.get("metrics"), dict):
        values["metrics"] = {
            str(name)[:63]: float(value)
            for name, value in list(told["metrics"].items())[:METRICS_KEPT]
            if _finite(value)
        }
    if not values:
        return draft.progress
    values["updated_at"] = (end.finished_at if end else None) or draft.now
    return known.model_copy(update=values)


def read_progress(answer: dict[str, Any], now: datetime) -> Progress | None:
    """What a pod's /status says, as status keeps it; None when it says nothing of use.

    Values of the wrong type and numbers that are not finite are left out: the pod belongs to
    the user, and nothing it says may break the job's status.
    """
    whole = {name: answer.get(name) for name in ("step", "totalSteps", "lastCheckpointStep")}
    real = ("epoch", "stepsPerSecond", "examplesPerSecond", "loss")
    values: dict[str, Any] = {name: value for name, value in whole.items() if type(value) is int and 0 <= value < 2**53}
    values |= {name: float(answer[name]) for name in real if _finite(answer.get(name))}
    metrics = answer.get("metrics")
    if isinstance(metrics, dict):
        values["metrics"] = {
            str(name)[:63]: float(value) for name, value in list(metrics.items())[:METRICS_KEPT] if _finite(value)
        }
    if not values:
        return None
    return Progress.model_validate(values | {"updatedAt": now})


def highest_step(draft: Draft) -> int:
    """The highest step that was ever reported."""
    return (draft.progress.step or 0) if draft.progress else 0


def _finite(value: object) -> bool:
    return type(value) in {int, float} and math.isfinite(float(value))  # type: ignore[arg-type]


def _decoded(message: str) -> dict[str, Any]:
    try:
        told = json.loads(message) if message.startswith("{") else {}
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}
