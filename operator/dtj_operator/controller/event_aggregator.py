"""EventAggregator: joins similar events, as the correlator of client-go does.

The first ten events of one job, reason and group within ten minutes stay single; all further ones are one event, which
counts them. This is remembered in memory alone: after a restart of the operator counting begins again.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dtj_operator.reconcile.state.plan import Event

SINGLE_EVENTS = 10
WINDOW_SECONDS = 600.0
MAX_GROUPS = 4096
"""Groups that are remembered; beyond that the oldest one is forgotten."""


@dataclass(slots=True)
class JoinedEvent:
    """The one event that stands for all similar ones after the first ten."""

    name: str = ""
    """Its object's name; empty until it is queued."""
    count: int = 0
    posted_count: int = 0
    """What the API server has; 0: the event has not been created."""
    message: str = ""
    """Of the latest one."""
    last_at: str = ""
    """Time of the latest one."""
    pending: bool = False
    """Whether it waits to be posted; then the next one only adds to it."""

    def add(self, message: str, at: str) -> None:
        """Count one more."""
        self.count += 1
        self.message = f"(combined from similar events): {message}"
        self.last_at = at


@dataclass(slots=True)
class _Group:
    began: float
    single: int = 0
    joined: JoinedEvent = field(default_factory=JoinedEvent)


class EventAggregator:
    """A counter of similar events: decides which are posted one by one, and which are joined."""

    def __init__(self) -> None:
        self._groups: OrderedDict[tuple[str, str, str], _Group] = OrderedDict()
        """By UID of the job, reason and group of the event; the oldest first."""

    def join(self, uid: str, event: Event, now: float) -> JoinedEvent | None:
        """Return the event that this one is to be counted in; None: it stays single. `now` is the loop's time."""
        if not event.group:
            return None
        self._forget(now)
        group = self._groups.setdefault((uid, event.reason, event.group), _Group(now))
        if group.single < SINGLE_EVENTS:
            group.single += 1
            return None
        return group.joined

    def _forget(self, now: float) -> None:
        while self._groups:
            oldest = next(iter(self._groups.values()))
            if now - oldest.began < WINDOW_SECONDS and len(self._groups) < MAX_GROUPS:
                return
            self._groups.popitem(last=False)
