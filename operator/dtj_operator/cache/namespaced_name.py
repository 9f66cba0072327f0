"""Which job an object belongs to, and which of two versions of it is the newer one."""

from __future__ import annotations

from typing import NamedTuple


class Key(NamedTuple):
    """Which job."""

    namespace: str
    name: str

    def __str__(self) -> str:
        """As kubectl users write it."""
        return f"{self.namespace}/{self.name}"


class SourceEnded(Exception):
    """A source has ended by itself; the process has to be started again."""


def version(raw: str) -> int:
    """A resourceVersion as a number; Kubernetes 1.35 says that they compare as such. 0 when it is none."""
    return int(raw) if raw.isdecimal() else 0
