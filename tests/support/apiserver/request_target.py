"""The verb and object of a request, and its entry in the audit log."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.support.apiserver.errors import Refusal, bad_request
from tests.support.apiserver.kinds import Kind, find
from tests.support.apiserver.log import Request

if TYPE_CHECKING:
    from aiohttp import web


@dataclass(frozen=True, slots=True)
class Target:
    """The object or list that a URL names."""

    kind: Kind
    namespace: str
    name: str
    subresource: str

    @classmethod
    def parse(cls, path: str) -> Target | None:
        """Parse the path of a URL; None if it names no object or list of a known kind."""
        parts = [part for part in path.split("/") if part]
        if parts[:1] == ["api"] and len(parts) > 2:
            group, version, rest = "", parts[1], parts[2:]
        elif parts[:1] == ["apis"] and len(parts) > 3:
            group, version, rest = parts[1], parts[2], parts[3:]
        else:
            return None
        namespace = ""
        if rest[0] == "namespaces" and len(rest) > 2 and not (group == "" and rest[2] in {"status", "finalize"}):
            namespace, rest = rest[1], rest[2:]
        kind = find(rest[0], group, version)
        if kind is None or len(rest) > 3 or (namespace and not kind.namespaced):
            return None
        subresource = rest[2] if len(rest) == 3 else ""
        if subresource and subresource not in kind.subresources:
            return None
        return cls(kind, namespace, rest[1] if len(rest) > 1 else "", subresource)


def log_entry(request: web.Request, target: Target, token: str, body: Any) -> Request:
    """Return the entry for the audit log. Raises a 405."""
    name = target.name or (((body or {}).get("metadata") or {}).get("name", "") if isinstance(body, dict) else "")
    return Request(
        verb=_rbac_verb(request, target),
        group=target.kind.group,
        resource=target.kind.plural,
        subresource=target.subresource,
        namespace=target.namespace,
        name=name,
        user_agent=request.headers.get("User-Agent", ""),
        token=token,
        body=body,
        time=asyncio.get_running_loop().time(),
    )


def decode(body: bytes) -> Any:
    """Decode the body of a request; None if there is none. Raises a 400."""
    if not body:
        return None
    try:
        return json.loads(body)
    except ValueError as error:
        raise bad_request(f"the body is not JSON: {error}") from None


def _rbac_verb(request: web.Request, target: Target) -> str:
    if request.method in {"GET", "HEAD"}:
        if request.query.get("watch") in {"true", "1"}:
            return "watch"
        return "get" if target.name else "list"
    if request.method == "DELETE":
        return "delete" if target.name else "deletecollection"
    verbs = {"POST": "create", "PUT": "update", "PATCH": "patch"}
    verb = verbs.get(request.method)
    if verb is None or (verb == "create") is bool(target.name):
        raise Refusal(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
    return verb
