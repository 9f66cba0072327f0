"""What is reported of a job whose status a later version of the operator wrote, and which is left alone otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dtj_operator.api.enums import ConditionType, Reason

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

FINISHED = {ConditionType.SUCCEEDED, ConditionType.FAILED}


def report_later_status(status: Mapping[str, Any], problem: str, now: datetime) -> dict[str, Any]:
    """Return the stored status with Running=False, for the reason StatusOfLaterVersion; all else as it stands.

    Of a finished job nothing is reported.
    """
    conditions = [one for one in status.get("conditions") or () if isinstance(one, dict)]
    if any(one.get("type") in FINISHED and one.get("status") == "True" for one in conditions):
        return dict(status)
    message = (
        f"A later version of the operator wrote this status: {problem}. Nothing is done until that one runs again."
    )
    known: dict[str, Any] = next((one for one in conditions if one.get("type") == ConditionType.RUNNING), {})
    since = known.get("lastTransitionTime") if known.get("status") == "False" else None
    reported = known | {
        "type": str(ConditionType.RUNNING),
        "status": "False",
        "reason": str(Reason.STATUS_OF_LATER_VERSION),
        "message": message,
        "lastTransitionTime": since or f"{now:%Y-%m-%dT%H:%M:%SZ}",
    }
    others = [one for one in conditions if one is not known]
    return {**status, "conditions": [*others, reported], "message": message}
