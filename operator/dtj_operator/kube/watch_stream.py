"""Watch events, read from the bytes of a watch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dtj_operator.kube import serializer
from dtj_operator.kube.errors import GONE, Gone, Retry

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import aiohttp


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """One watch event: ADDED, MODIFIED, DELETED or BOOKMARK."""

    type: str
    object: dict[str, Any]


async def watch_events(stream: aiohttp.StreamReader) -> AsyncIterator[WatchEvent]:
    """Yield the events of a watch until the server ends it. Raises Gone, Retry.

    Each line is one event, of any length; aiohttp's own line reader gives up above 64 KiB.
    """
    rest = b""
    async for chunk in stream.iter_any():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            if line:
                yield _parse_event(line)


def _parse_event(line: bytes) -> WatchEvent:
    try:
        event = serializer.loads(line)
        kind, body = event["type"], event["object"]
    except (ValueError, KeyError) as error:
        msg = "the watch sent something that is not a watch event"
        raise Retry(msg) from error
    if kind == "ERROR":
        code = int(body.get("code") or 0)
        message = str(body.get("message") or "the watch ended with an error")
        if code == GONE:
            raise Gone(message, code=code)
        raise Retry(message, code=code)
    return WatchEvent(kind, body)
