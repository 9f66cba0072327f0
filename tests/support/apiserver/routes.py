"""The HTTP handlers: from a request to a verb and back."""

from __future__ import annotations

import base64
import contextlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from aiohttp import web

from tests.support.apiserver import discovery
from tests.support.apiserver.connections import ClientConnections, respond
from tests.support.apiserver.errors import Refusal, bad_request, expired
from tests.support.apiserver.faults import Faults
from tests.support.apiserver.kinds import KINDS, Kind, Object
from tests.support.apiserver.log import Log
from tests.support.apiserver.registry import Deletion, Registry
from tests.support.apiserver.request_target import Target, decode, log_entry
from tests.support.apiserver.selectors import selector
from tests.support.apiserver.watch import WatchCache, WatchRequest

if TYPE_CHECKING:
    from tests.support.apiserver.access import Access

SUCCESS: Object = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}


@dataclass(slots=True)
class Routes:
    """The handlers."""

    registry: Registry
    watch_cache: WatchCache
    access: Access
    faults: Faults
    log: Log
    connections: ClientConnections = field(default_factory=ClientConnections)

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Answer any request."""
        return await respond(request, self._route)

    async def _route(self, request: web.Request) -> web.StreamResponse:
        token = self.connections.admit(request)
        path = request.path.rstrip("/")
        if path in {"/version", "/api", "/apis", "/healthz", "/readyz", "/livez"} or path.count("/") < 4:
            said = self._discover(path)
            if said is not None:
                return said
        if path == "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews":
            return web.json_response(self._review(token, await request.json()), status=201)
        target = Target.parse(path)
        if target is None:
            raise Refusal(404, "NotFound", "the server could not find the requested resource")
        return await self._verb(request, target, token)

    def _discover(self, path: str) -> web.Response | None:
        if path in {"/healthz", "/readyz", "/livez"}:
            return web.Response(text="ok")
        parts = path.split("/")[1:]
        said: Object | None = None
        if path == "/version":
            said = discovery.VERSION
        elif path == "/api":
            said = discovery.core_versions()
        elif path == "/apis":
            said = discovery.groups(KINDS)
        elif parts[0] == "api" and len(parts) == 2:
            said = discovery.resources(KINDS, "", parts[1])
        elif parts[0] == "apis" and len(parts) == 3:
            said = discovery.resources(KINDS, parts[1], parts[2])
        return None if said is None else web.json_response(said)

    def _review(self, token: str, body: Object) -> Object:
        asked = (body.get("spec") or {}).get("resourceAttributes") or {}
        resource = "/".join(part for part in (asked.get("resource", ""), asked.get("subresource", "")) if part)
        allowed = self.access.allows(
            token,
            asked.get("verb", ""),
            asked.get("group", ""),
            resource,
            asked.get("namespace", ""),
            asked.get("name", ""),
        )
        return {**body, "metadata": {}, "status": {"allowed": allowed}}

    async def _verb(self, request: web.Request, target: Target, token: str) -> web.StreamResponse:
        body = decode(await request.read())
        note = log_entry(request, target, token, body)
        verb = note.verb
        self.log.requests.append(note)
        outcome = self.faults.take(note)
        try:
            if outcome is not None and not outcome.after_commit:
                await outcome.trigger(note)
            self.access.demand(token, verb, target.kind, target.subresource, target.namespace, target.name)
            self.connections.require_alive(token)
            if verb == "watch":
                note.code = 200
                return await self._watch(request, target)
            before = self.registry.store.revision
            try:
                code, said = self._answer(request, target, verb, body)
            finally:
                note.changed = self.registry.store.revision != before
            if outcome is not None and outcome.after_commit:
                await outcome.trigger(note)
        except Refusal as refusal:
            note.code = refusal.code
            raise
        note.code = code
        return web.json_response(said, status=code)

    def _answer(self, request: web.Request, target: Target, verb: str, body: Any) -> tuple[int, Object]:
        registry = _rehearsal(self.registry) if request.query.get("dryRun") == "All" else self.registry
        if verb == "list":
            return 200, self._list(request, target)
        if verb == "get":
            return 200, registry.get(target.kind, target.namespace, target.name)
        if verb in {"delete", "deletecollection"}:
            return 200, self._delete(registry, request, target, body)
        return self._write(registry, request, target, verb, body)

    def _write(
        self, registry: Registry, request: web.Request, target: Target, verb: str, body: Any
    ) -> tuple[int, Object]:
        kind, namespace, name, query = target.kind, target.namespace, target.name, request.query
        if verb == "create":
            strict = query.get("fieldValidation") == "Strict"
            return 201, registry.create(kind, namespace, body, strict=strict)
        code = 200 if registry.store.get(kind, (namespace, name)) is not None else 201
        if verb == "update":
            return code, registry.update(kind, namespace, name, body, subresource=target.subresource)
        said = registry.patch(kind, namespace, name, body, request.content_type, subresource=target.subresource)
        return code, said

    def _delete(self, registry: Registry, request: web.Request, target: Target, body: Any) -> Object:
        kind, query = target.kind, request.query
        options = Deletion.parse(_delete_options(body, query))
        if target.name:
            last, gone = registry.delete(kind, target.namespace, target.name, options)
            if gone and not kind.returns_deleted:
                details = {"name": target.name, "kind": kind.plural, "uid": last["metadata"]["uid"]}
                return {**SUCCESS, "details": details}
            return last
        selects = selector(kind, query.get("labelSelector", ""), query.get("fieldSelector", ""))
        for (namespace, name), obj in registry.store.items(kind, target.namespace):
            if selects(obj):
                registry.delete(kind, namespace, name, options)
        return SUCCESS

    def _list(self, request: web.Request, target: Target) -> Object:
        kind, query = target.kind, request.query
        selects = selector(kind, query.get("labelSelector", ""), query.get("fieldSelector", ""))
        revision, after = self._page(
            kind, query.get("continue", ""), query.get("resourceVersion", ""), query.get("resourceVersionMatch", "")
        )
        found = [
            (key, obj)
            for key, obj in self.watch_cache.objects(kind, revision).items()
            if target.namespace in ("", key[0]) and key > after and selects(obj)
        ]
        metadata: Object = {"resourceVersion": str(revision)}
        limit = int(query.get("limit") or 0)
        if limit and len(found) > limit:
            last = found[limit - 1][0]
            metadata["continue"] = base64.urlsafe_b64encode(json.dumps([revision, *last]).encode()).decode()
            if not query.get("labelSelector") and not query.get("fieldSelector"):
                metadata["remainingItemCount"] = len(found) - limit
            found = found[:limit]
        items = [
            {name: value for name, value in obj.items() if name not in {"apiVersion", "kind"} or kind.custom}
            for _, obj in found
        ]
        if "as=PartialObjectMetadataList" in request.headers.get("Accept", ""):
            partial = {"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata"}
            items = [{**partial, "metadata": item["metadata"]} for item in items]
            return {**partial, "kind": "PartialObjectMetadataList", "metadata": metadata, "items": items}
        return {"kind": f"{kind.kind}List", "apiVersion": kind.api_version, "metadata": metadata, "items": items}

    def _page(self, kind: Kind, token: str, version: str, match: str) -> tuple[int, tuple[str, str]]:
        if not token:
            if not version:
                return self.registry.store.revision, ("", "")
            exact = match == "Exact" and version != "0"
            return (int(version) if exact else self.watch_cache.revision(kind)), ("", "")
        try:
            revision, namespace, name = json.loads(base64.urlsafe_b64decode(token))
        except ValueError:
            raise bad_request("continue key is not valid") from None
        if revision < self.registry.store.compacted:
            raise expired("The provided continue parameter is too old to display a consistent list result.")
        return revision, (namespace, name)

    async def _watch(self, request: web.Request, target: Target) -> web.StreamResponse:
        query = request.query
        version = query.get("resourceVersion", "")
        fields = query.get("fieldSelector", "")
        if target.name:
            fields = f"metadata.name={target.name}"
        initial = query.get("sendInitialEvents") == "true"
        watch_request = WatchRequest(
            kind=target.kind,
            namespace=target.namespace,
            selects=selector(target.kind, query.get("labelSelector", ""), fields),
            revision=None if version in ("", "0") or initial else int(version),
            seconds=float(query.get("timeoutSeconds") or 1800),
            bookmarks=query.get("allowWatchBookmarks") == "true",
            initial_events=initial,
        )
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        with contextlib.suppress(ConnectionError):  # the client has left
            async for line in self.watch_cache.watch(watch_request):
                await response.write(line)
            await response.write_eof()
        return response


def _rehearsal(registry: Registry) -> Registry:
    """Return a registry on a copy of the storage, for dry runs."""
    return Registry(registry.store.copy(), registry.now, registry.schemas, registry.pod_quota, registry.pod_admission)


def _delete_options(body: Any, query: Any) -> Object:
    options = dict(body) if isinstance(body, dict) else {}
    if "gracePeriodSeconds" in query:
        options["gracePeriodSeconds"] = int(query["gracePeriodSeconds"])
    if "propagationPolicy" in query:
        options["propagationPolicy"] = query["propagationPolicy"]
    return options
