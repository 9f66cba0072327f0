"""Trouble on demand: refusals, cut connections, answers that never come, crashes at the n-th write."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.support.apiserver.errors import Refusal

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.support.apiserver.log import Request


class ConnectionCut(Exception):  # noqa: N818 - what happens to the client, not a mistake of the server
    """The connection is reset instead of answered."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer this instead; `after_commit`: the request has taken effect all the same."""

    code: int
    reason: str = "InternalError"
    message: str = "a fault was asked for"
    after_commit: bool = False
    headers: dict[str, str] = field(default_factory=dict)

    async def strike(self, _request: Request) -> None:
        """Raise the refusal."""
        raise Refusal(self.code, self.reason, self.message, headers=self.headers)


@dataclass(frozen=True, slots=True)
class Cut:
    """Reset the connection; `first` is called before, for instance to kill the client."""

    after_commit: bool = False
    first: Callable[[], None] = lambda: None

    async def strike(self, _request: Request) -> None:
        """Cut."""
        self.first()
        raise ConnectionCut


@dataclass(frozen=True, slots=True)
class Hang:
    """Say nothing for so long (seconds), then cut the connection: a timeout for the client."""

    seconds: float = 3600.0
    after_commit: bool = False

    async def strike(self, _request: Request) -> None:
        """Wait, then cut."""
        await asyncio.sleep(self.seconds)
        raise ConnectionCut


@dataclass(frozen=True, slots=True)
class Slow:
    """Take so long (seconds), then go on as usual."""

    seconds: float
    after_commit: bool = False

    async def strike(self, _request: Request) -> None:
        """Wait."""
        await asyncio.sleep(self.seconds)


@dataclass(frozen=True, slots=True)
class Meanwhile:
    """Do something, and let the request go on as usual; what it takes time for is waited for."""

    act: Callable[[], Awaitable[None] | None]
    after_commit: bool = False

    async def strike(self, _request: Request) -> None:
        """Do it."""
        doing = self.act()
        if doing is not None:
            await doing


Outcome = Answer | Cut | Hang | Meanwhile | Slow


def too_many_requests(retry_after_seconds: int = 1) -> Answer:
    """429, as priority and fairness answers it."""
    return Answer(
        429,
        "TooManyRequests",
        "too many requests, please try again later",
        headers={"Retry-After": str(retry_after_seconds)},
    )


def gateway_timeout(*, after_commit: bool = True) -> Answer:
    """504; by default the write has taken effect."""
    return Answer(504, "Timeout", "request did not complete within the allotted time", after_commit=after_commit)


@dataclass(slots=True)
class Rule:
    """The requests that pass `match` meet `outcome`: after `skip` of them, `times` times (None = always)."""

    match: Callable[[Request], bool]
    outcome: Outcome
    skip: int = 0
    times: int | None = 1
    hits: int = 0
    """How often it has struck."""

    def due(self, request: Request) -> bool:
        """Count this request; whether it is the turn of this rule."""
        if not self.match(request):
            return False
        if self.skip > 0:
            self.skip -= 1
            return False
        return self.times is None or self.hits < self.times


@dataclass(slots=True)
class Faults:
    """The rules in force. The first that takes a request decides."""

    rules: list[Rule] = field(default_factory=list)

    def add(self, match: Callable[[Request], bool], outcome: Outcome, *, skip: int = 0, times: int | None = 1) -> Rule:
        """Put a rule in force."""
        rule = Rule(match, outcome, skip, times)
        self.rules.append(rule)
        return rule

    def on_write(self, n: int, outcome: Outcome, *, user_agent: str = "") -> Rule:
        """Strike the n-th write (0 = the next one) of this client; leases do not count."""
        return self.add(
            lambda request: (
                request.write and request.resource != "leases" and request.user_agent.startswith(user_agent)
            ),
            outcome,
            skip=n,
        )

    def clear(self) -> None:
        """No more faults."""
        self.rules.clear()

    def take(self, request: Request) -> Outcome | None:
        """The outcome this request meets, if any."""
        due = [rule for rule in self.rules if rule.due(request)]
        if not due:
            return None
        due[0].hits += 1
        return due[0].outcome
