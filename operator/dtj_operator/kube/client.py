"""ApiClient: get, list, watch, create, replace, patch and delete objects of the API server.

Objects are `dict[str, Any]` as the server sends them. Every method may raise the KubeErrors that its docstring names,
and always Retry and Unauthorized.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlencode

from dtj_operator.kube import serializer
from dtj_operator.kube.transport import JSON, LIST, READ, WRITE, Transport, watch_timeout
from dtj_operator.kube.watch_stream import watch_events

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping
    from types import TracebackType

    from dtj_operator.kube.resources import GroupVersionResource
    from dtj_operator.kube.rest_config import RestConfig
    from dtj_operator.kube.watch_stream import WatchEvent

MERGE_PATCH = "application/merge-patch+json"
METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
"""Objects without spec and status; a server that cannot do that sends them whole."""


@dataclass(frozen=True, slots=True)
class Page:
    """One chunk of a list."""

    items: list[dict[str, Any]]
    resource_version: str
    """Of the whole list."""


class ApiClient:
    """The operator's client of one API server. Use as an async context manager."""

    def __init__(
        self,
        config: RestConfig,
        *,
        user_agent: str,
        qps: float = 0,
        burst: int = 100,
        record_request: Callable[[str, str], None] | None = None,
    ) -> None:
        """`qps` 0: no limit. `record_request(method, status)` is called for each response, for metrics."""
        self._transport = Transport(
            config, user_agent=user_agent, qps=qps, burst=burst, record_request=record_request or _ignore
        )

    async def __aenter__(self) -> Self:
        await self._transport.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._transport.__aexit__(kind, error, trace)

    def fenced(self, may_write: Callable[[], bool]) -> ApiClient:
        """Return the same client, whose writes raise Fenced unless `may_write()` is true when they are sent."""
        client = copy(self)
        client._transport = self._transport.fenced(may_write)  # noqa: SLF001  (of its own class)
        return client

    async def get(self, resource: GroupVersionResource, namespace: str | None, name: str) -> dict[str, Any]:
        """Read one object. Raises NotFound."""
        return await self._transport.send("GET", resource.path(namespace, name), READ, idempotent=True)

    async def list_pages(
        self,
        resource: GroupVersionResource,
        namespace: str | None,
        *,
        labels: str = "",
        limit: int = 250,
        accept: str = JSON,
    ) -> AsyncIterator[Page]:
        """Yield a consistent list in chunks. Raises Gone when it took so long that the list must start again.

        `accept`: METADATA_ONLY for objects without spec and status.
        """
        query: dict[str, str] = {"limit": str(limit)}
        if labels:
            query["labelSelector"] = labels
        while True:
            path = f"{resource.path(namespace)}?{urlencode(query)}"
            answer = await self._transport.send("GET", path, LIST, idempotent=True, accept=accept)
            metadata = answer.get("metadata") or {}
            yield Page(items=answer.get("items") or [], resource_version=str(metadata.get("resourceVersion") or "0"))
            token = metadata.get("continue")
            if not token:
                return
            query["continue"] = str(token)

    async def watch(
        self, resource: GroupVersionResource, namespace: str | None, *, since: str, labels: str = "", seconds: int = 290
    ) -> AsyncIterator[WatchEvent]:
        """Yield the events after resourceVersion `since`, until the server ends the watch. Raises Gone."""
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": since,
            "timeoutSeconds": str(seconds),
        }
        if labels:
            query["labelSelector"] = labels
        path = f"{resource.path(namespace)}?{urlencode(query)}"
        async with self._transport.stream(path, watch_timeout(seconds), f"the watch of {resource.plural}") as stream:
            async for event in watch_events(stream):
                yield event

    async def create(
        self, resource: GroupVersionResource, namespace: str | None, body: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Create an object and return it as stored. Raises AlreadyExists, Refused, NotFound, OutcomeUnknown."""
        content = serializer.dumps(body)
        return await self._transport.send("POST", resource.path(namespace), WRITE, content, idempotent=False)

    async def replace(
        self, resource: GroupVersionResource, namespace: str, name: str, body: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Update with the resourceVersion in the body. Raises Conflict, NotFound, Refused, OutcomeUnknown."""
        content = serializer.dumps(body)
        return await self._transport.send("PUT", resource.path(namespace, name), WRITE, content, idempotent=False)

    async def patch_status(
        self, resource: GroupVersionResource, namespace: str, name: str, patch: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Patch the status (merge patch); a resourceVersion in the patch is a precondition. Raises as `replace`."""
        path = resource.path(namespace, name, "status")
        return await self._transport.send("PATCH", path, WRITE, serializer.dumps(patch), MERGE_PATCH, idempotent=False)

    async def patch(
        self, resource: GroupVersionResource, namespace: str, name: str, patch: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Merge-patch an object. Raises NotFound, Refused, OutcomeUnknown."""
        path = resource.path(namespace, name)
        return await self._transport.send("PATCH", path, WRITE, serializer.dumps(patch), MERGE_PATCH, idempotent=False)

    async def delete(
        self,
        resource: GroupVersionResource,
        namespace: str,
        name: str,
        *,
        uid: str,
        grace: int | None = None,
        propagation: str = "Background",
    ) -> dict[str, Any]:
        """Delete the object with this UID. Returns the object, or a Status. Raises NotFound, Conflict, Refused."""
        options: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": uid},
            "propagationPolicy": propagation,
        }
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        # The UID makes a second deletion harmless.
        content = serializer.dumps(options)
        return await self._transport.send("DELETE", resource.path(namespace, name), WRITE, content, idempotent=True)


def _ignore(_method: str, _status: str) -> None:
    pass
