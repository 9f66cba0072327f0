"""The API server's audit log, read as a list of requests.

The policy writes one line for each finished request, watches included, with
the level Metadata; health probes are left out.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

POLICY: dict[str, Any] = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived", "ResponseStarted"],
    "rules": [
        {"level": "None", "nonResourceURLs": ["/healthz*", "/livez*", "/readyz*", "/metrics", "/version"]},
        {"level": "Metadata"},
    ],
}
"""Watches are logged when they end, like every other request."""

WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})


@dataclass(frozen=True)
class Request:
    """One finished request."""

    at: datetime
    user_agent: str
    user: str
    verb: str
    resource: str
    subresource: str
    namespace: str
    name: str
    code: int

    @property
    def writes(self) -> bool:
        """Tell whether the request is a write."""
        return self.verb in WRITES


@dataclass(frozen=True)
class AuditLog:
    """The log file of one API server; `mark` and `since` bracket a measurement."""

    path: Path

    def mark(self) -> int:
        """Return the present end of the log, in bytes."""
        return self.path.stat().st_size if self.path.exists() else 0

    def since(self, mark: int = 0, *, user_agent: str = "") -> list[Request]:
        """Return the requests finished after `mark` whose user agent begins with `user_agent`."""
        return [request for request in self._read(mark) if request.user_agent.startswith(user_agent)]

    def count(self, mark: int = 0, *, user_agent: str = "") -> Counter[str]:
        """Count requests by `verb resource[/subresource]`."""
        return Counter(
            f"{request.verb} {'/'.join(filter(None, (request.resource, request.subresource)))}"
            for request in self.since(mark, user_agent=user_agent)
        )

    def _read(self, mark: int) -> Iterator[Request]:
        if not self.path.exists():
            return
        with self.path.open("rb") as log:
            log.seek(mark)
            for line in log:
                if line.endswith(b"\n"):
                    yield parse(json.loads(line))


def parse(entry: dict[str, Any]) -> Request:
    """Parse one line of the log, an audit.k8s.io/v1 Event."""
    target = entry.get("objectRef", {})
    return Request(
        at=datetime.fromisoformat(entry["stageTimestamp"]),
        user_agent=entry.get("userAgent", ""),
        user=entry.get("user", {}).get("username", ""),
        verb=entry.get("verb", ""),
        resource=target.get("resource", entry.get("requestURI", "")),
        subresource=target.get("subresource", ""),
        namespace=target.get("namespace", ""),
        name=target.get("name", ""),
        code=entry.get("responseStatus", {}).get("code", 0),
    )
