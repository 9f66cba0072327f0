"""Who wants to hear what the runtime does; the metrics implement it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from dtj_operator.controller.workqueue import QueueObserver

if TYPE_CHECKING:
    from collections.abc import Mapping


class Observer(QueueObserver, Protocol):
    """Hears of passes and of changes that the API server has accepted."""

    def reconciled(self, result: str, seconds: float) -> None:
        """One pass over one job; result is success, error, requeue or requeue_after."""
        ...

    def status_changed(self, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
        """A status was written: before and after, as on the wire."""
        ...

    def pod_created(self) -> None:
        """The API server has created a pod for us."""
        ...


class Silent:
    """An Observer that does not care."""

    def added(self) -> None:
        """See QueueObserver."""

    def waited(self, seconds: float) -> None:
        """See QueueObserver."""

    def retried(self) -> None:
        """See QueueObserver."""

    def reconciled(self, result: str, seconds: float) -> None:
        """See Observer."""

    def status_changed(self, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
        """See Observer."""

    def pod_created(self) -> None:
        """See Observer."""
