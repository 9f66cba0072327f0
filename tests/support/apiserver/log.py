"""The audit log: all requests, and who sent them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

WRITES: Final = frozenset({"create", "update", "patch", "delete", "deletecollection"})


@dataclass(slots=True)
class Request:
    """One request for an object or a list; discovery is not logged."""

    verb: str
    """As in RBAC: create, get, list, watch, update, patch, delete, deletecollection."""
    group: str
    resource: str
    subresource: str
    namespace: str
    name: str
    """For a create the name in the body."""
    user_agent: str
    token: str
    body: object = None
    code: int = 0
    """HTTP status; 0 while there is no answer, and permanently if the connection was cut."""
    changed: bool = False
    """Whether anything was committed."""
    time: float = 0.0
    """Loop time at the arrival, seconds."""

    @property
    def write(self) -> bool:
        """Tell whether the verb is a write."""
        return self.verb in WRITES

    @property
    def target(self) -> str:
        """Return a description: `create pods/train-worker-0`, `update distributedtrainingjobs/train/status`."""
        parts = [self.resource, self.name, self.subresource]
        return f"{self.verb} " + "/".join(part for part in parts if part)


@dataclass(slots=True)
class Log:
    """All requests, in the order of arrival."""

    requests: list[Request] = field(default_factory=list)

    def select(self, test: Callable[[Request], bool]) -> list[Request]:
        """Return the requests that pass a test."""
        return [request for request in self.requests if test(request)]

    def by(self, user_agent: str) -> list[Request]:
        """Return the requests whose User-Agent begins with `user_agent`."""
        return self.select(lambda request: request.user_agent.startswith(user_agent))

    def writes(self, user_agent: str = "") -> list[Request]:
        """Return the writes, except those to leases: elections and heartbeats do not count."""
        return self.select(
            lambda request: request.write and request.resource != "leases" and request.user_agent.startswith(user_agent)
        )

    def clear(self) -> None:
        """Delete all entries."""
        self.requests.clear()
