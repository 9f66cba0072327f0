"""The conditions of a job in one pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dtj_operator.api.enums import ConditionType, Reason
from dtj_operator.api.status import Condition
from dtj_operator.api.wire_model import whole_second

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime


FINISHED = "The job is finished."
ALL_READY = "All pods are ready."
"""The message of Running=True while there is nothing else to say."""


class Conditions:
    """The conditions by type. A transition time changes with the status alone, as meta.SetStatusCondition has it."""

    __slots__ = ("_by_type", "_now")

    def __init__(self, conditions: Iterable[Condition], now: datetime) -> None:
        """Start from those in status."""
        self._by_type: dict[str, Condition] = {condition.type: condition for condition in conditions}
        self._now = now

    def get(self, kind: ConditionType) -> Condition | None:
        """Return the condition; None if it was never set."""
        return self._by_type.get(kind)

    def is_true(self, kind: ConditionType, reason: Reason | None = None) -> bool:
        """Return whether the condition is True, and for that reason if one is named."""
        condition = self._by_type.get(kind)
        return condition is not None and condition.holds and (reason is None or condition.reason == reason)

    @property
    def finished(self) -> bool:
        """Whether the job has succeeded or failed, in this pass or before."""
        return self.is_true(ConditionType.SUCCEEDED) or self.is_true(ConditionType.FAILED)

    def in_order(self) -> tuple[Condition, ...]:
        """Return all conditions for status: in the order of their types, then those that this version does not know."""
        known = [self._by_type[kind] for kind in ConditionType if kind in self._by_type]
        return (*known, *(one for one in self._by_type.values() if one.type not in set(ConditionType)))

    def set_true(self, kind: ConditionType, reason: str, message: str) -> bool:
        """Make the condition True. Returns whether that is new."""
        return self._set(kind, "True", reason, message)

    def set_false(self, kind: ConditionType, reason: str, message: str) -> bool:
        """Make the condition False. Returns whether that is new."""
        return self._set(kind, "False", reason, message)

    def halt(self, reason: Reason, message: str) -> None:
        """End Running, and Restarting where it is True: no pod of the job is to run any more."""
        self.set_false(ConditionType.RUNNING, reason, message)
        if self.is_true(ConditionType.RESTARTING):
            self.set_false(ConditionType.RESTARTING, reason, message)

    def finish(self, kind: ConditionType, reason: Reason, message: str) -> None:
        """Set the one terminal condition, Succeeded or Failed, and end what was under way.

        A finished job has Restarting=False even if it never restarted.
        """
        self.set_true(kind, reason, message)
        self.halt(Reason.FINISHED, FINISHED)
        if self.get(ConditionType.RESTARTING) is None:
            self.set_false(ConditionType.RESTARTING, Reason.FINISHED, FINISHED)
        if self.is_true(ConditionType.SUSPENDED):
            self.set_false(ConditionType.SUSPENDED, Reason.FINISHED, FINISHED)

    def _set(self, kind: ConditionType, status: str, reason: str, message: str) -> bool:
        old = self._by_type.get(kind)
        reason = str(reason)
        changed = old is None or old.status != status
        if not changed and old and old.reason == reason and old.message == message:
            return False
        since = whole_second(self._now) if changed or old is None else old.last_transition_time
        self._by_type[kind] = Condition.model_construct(
            type=kind, status=status, reason=reason, message=message, last_transition_time=since
        )
        return changed
