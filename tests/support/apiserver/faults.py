"""Faults on demand: refusals, cut connections, answers that never come, crashes at the n-th write."""

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
    """Answer this instead; `after_commit`: the request has taken effect nevertheless."""

    code: int
    reason: str = "InternalError"
    message: str = "a fault was asked for"
    after_commit: bool = False
    headers: dict[str, str] = field(default_factory=dict)

    async def trigger(self, _request: Request) -> None:
        """Raise the refusal."""
        raise Refusal(self.code, self.reason, self.message, headers=self.headers)


@dataclass(frozen=True, slots=True)
class Cut:
    """Reset the connection; `first` is called before, for instance to kill the client."""

    after_commit: bool = False
    first: Callable[[], None] = lambda: None

    async def trigger(self, _request: Request) -> None:
        """Cut the connection."""
        self.first()
        raise ConnectionCut


@dataclass(frozen=True, slots=True)
class Hang:
    """Do not answer for so many seconds, then cut the connection: a timeout for the client."""

    seconds: float = 3600.0
    after_commit: bool = False

    async def trigger(self, _request: Request) -> None:
        """Wait, then cut."""
        await asyncio.sleep(self.seconds)
        raise ConnectionCut


@dataclass(frozen=True, slots=True)
class Slow:
    """Wait so many seconds, then go on as usual."""

    seconds: float
    after_commit: bool = False

    async def trigger(self, _request: Request) -> None:
        """Wait."""
        await asyncio.sleep(self.seconds)


@dataclass(frozen=True, slots=True)
class Meanwhile:
    """Call or await a function, then let the request go on as usual."""

    act: Callable[[], Awaitable[None] | None]
    after_commit: bool = False

    async def trigger(self, _request: Request) -> None:
        """Call the function."""
        doing = self.act()
        if doing is not None:
            await doing


Outcome = Answer | Cut | Hang | Meanwhile | Slow


def too_many_requests(retry_after_seconds: int = 1) -> Answer:
    """Return the 429 of priority and fairness."""
    return Answer(
        429,
        "TooManyRequests",
        "too many requests, please try again later",
        headers={"Retry-After": str(retry_after_seconds)},
    )


def gateway_timeout(*, after_commit: bool = True) -> Answer:
    """Return a 504; by default the write has taken effect."""
    return Answer(504, "Timeout", "request did not complete within the allotted time", after_commit=after_commit)


@dataclass(slots=True)
class Rule:
    """A fault: the requests that pass `match` get `outcome`, after `skip` of them, `times` times (None = always)."""

    match: Callable[[Request], bool]
    outcome: Outcome
    skip: int = 0
    times: int | None = 1
    hits: int = 0
    """How often it was triggered."""

    def due(self, request: Request) -> bool:
        """Count this request; returns whether the rule applies to it."""
        if not self.match(request):
            return False
        if self.skip > 0:
            self.skip -= 1
            return False
        return self.times is None or self.hits < self.times


@dataclass(slots=True)
class Faults:
    """The active rules. The first that applies to a request decides."""

    rules: list[Rule] = field(default_factory=list)

    def add(self, match: Callable[[Request], bool], outcome: Outcome, *, skip: int = 0, times: int | None = 1) -> Rule:
        """Add a rule."""
        rule = Rule(match, outcome, skip, times)
        self.rules.append(rule)
        return rule

    def on_write(self, n: int, outcome: Outcome, *, user_agent: str = "") -> Rule:
        """Add a rule for the n-th write (0 = the next one) of this client; leases do not count."""
        return self.add(
            lambda request: (
                request.write and request.resource != "leases" and request.user_agent.startswith(user_agent)
            ),
            outcome,
            skip=n,
        )

    def clear(self) -> None:
        """Remove all rules."""
        self.rules.clear()

    def take(self, request: Request) -> Outcome | None:
        """Return the outcome of the rule that applies to this request, if any."""
        due = [rule for rule in self.rules if rule.due(request)]
        if not due:
            return None
        due[0].hits += 1
        return due[0].outcome
