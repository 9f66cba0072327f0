"""How far the training is: what the success pod said last, and what it said at its end."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from dtj_operator.api.status import Progress
from dtj_operator.reconcile.failures.failure import ended
from dtj_operator.reconcile.state.trainer_messages import decoded, real, whole, writable

if TYPE_CHECKING:
    from datetime import datetime

    from dtj_operator.reconcile.state.replicas import Slot
    from dtj_operator.reconcile.state.scope import Draft

EVERY = timedelta(seconds=30)
"""The shortest time between two writes of progress alone."""
METRICS_KEPT = 32


def reported(draft: Draft) -> None:
    """Take over the latest answer of the success pod, at most every 30 s."""
    latest, known = draft.snapshot.progress, draft.progress
    if latest is None or latest.updated_at is None:
        return
    if known and known.updated_at and known.updated_at <= draft.now and latest.updated_at < known.updated_at + EVERY:
        return
    draft.progress = latest


def final_progress(draft: Draft, slot: Slot) -> Progress | None:
    """The last values from the termination message of the pod that ended the job."""
    pod = draft.pods.get(slot)
    end = ended(pod, draft.main(slot)) if pod else None
    told = decoded(end.message) if end else {}
    known = draft.progress or Progress()
    values = _said(
        step=whole(told.get("step")),
        last_checkpoint_step=whole(told.get("checkpointStep")),
        metrics=_metrics(told.get("metrics")),
    )
    if not values:
        return draft.progress
    values["updated_at"] = (end.finished_at if end else None) or draft.now
    return known.model_copy(update=values)


def read_progress(answer: dict[str, Any], now: datetime) -> Progress | None:
    """What a pod's /status says, as status keeps it; None when it says nothing of use.

    Values of the wrong type and numbers that are not finite are left out.
    """
    wholes = {name: whole(answer.get(name)) for name in ("step", "totalSteps", "lastCheckpointStep")}
    reals = {name: real(answer.get(name)) for name in ("epoch", "stepsPerSecond", "examplesPerSecond", "loss")}
    values = _said(**wholes, **reals, metrics=_metrics(answer.get("metrics")))
    return Progress.model_validate(values | {"updatedAt": now}) if values else None


def highest_step(draft: Draft) -> int:
    """The highest step that was ever reported."""
    return (draft.progress.step or 0) if draft.progress else 0


def _said(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _metrics(told: object) -> dict[str, float] | None:
    if not isinstance(told, dict):
        return None
    read = ((writable(str(name)[:63]), real(value)) for name, value in list(told.items())[:METRICS_KEPT])
    return {name: value for name, value in read if value is not None}
