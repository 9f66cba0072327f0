"""Where news comes from and where it goes, whoever does the watching."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Set as AbstractSet


class Key(NamedTuple):
    """Which job."""

    namespace: str
    name: str

    def __str__(self) -> str:
        """As kubectl users write it."""
        return f"{self.namespace}/{self.name}"


class Sink(Protocol):
    """Takes what a watch or a list says about objects of one kind; order and repetition do not matter."""

    def upsert(self, raw: dict[str, Any]) -> None:
        """This object exists, or did at its resourceVersion."""
        ...

    def delete(self, raw: dict[str, Any]) -> None:
        """This incarnation is gone."""
        ...

    def retain(self, namespace: str | None, uids: AbstractSet[str], resource_version: str) -> None:
        """A complete list of `namespace` (None: all) at that resourceVersion held exactly `uids`.

        What is known but not among them has been deleted unseen, unless it is newer than the list.
        """
        ...


class SourceEnded(Exception):
    """A source has ended by itself; the process has to be started again."""


class EventSource(Protocol):
    """Something that watches one kind and tells a sink."""

    synced: asyncio.Event
    """Set once everything that existed at the start has been told."""

    async def run(self) -> None:
        """Watch until cancelled."""
        ...


def version(raw: str) -> int:
    """A resourceVersion as a number; Kubernetes 1.35 says that they compare as such. 0 when it is none."""
    return int(raw) if raw.isdecimal() else 0
