"""NamespacedName, and resourceVersions as numbers."""

from __future__ import annotations

from typing import NamedTuple


class NamespacedName(NamedTuple):
    """The namespace and name of a job; in indexers of cluster-scoped objects the namespace is empty."""

    namespace: str
    name: str

    def __str__(self) -> str:
        """Return `namespace/name`."""
        return f"{self.namespace}/{self.name}"


def parse_resource_version(raw: str) -> int:
    """Return a resourceVersion as a number, 0 when it is none. Kubernetes 1.35 says that they compare as numbers."""
    return int(raw) if raw.isdecimal() else 0
