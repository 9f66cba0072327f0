"""The verbs create, update, patch and delete, on top of the storage.

Everything here is synchronous, so each verb is one transaction. The HTTP routes and the tests'
direct calls (`ApiServer.create` and so on) both use it.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from tests.support.apiserver import core, patch
from tests.support.apiserver.copies import copied
from tests.support.apiserver.errors import Refusal, already_exists, bad_request, conflict, forbidden, invalid, not_found
from tests.support.apiserver.kinds import NAMESPACES, PODS

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.apiserver.kinds import Kind, Object
    from tests.support.apiserver.schema import CustomSchema
    from tests.support.apiserver.storage import Storage

IDENTITY_FIELDS = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "namespace",
)
"""Metadata that a client's update cannot change."""


def timestamp(moment: datetime) -> str:
    """Format a metav1.Time: whole seconds, UTC."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(frozen=True, slots=True)
class Deletion:
    """metav1.DeleteOptions."""

    grace_seconds: int | None = None
    uid: str | None = None
    resource_version: str | None = None
    propagation: str = "Background"

    @classmethod
    def parse(cls, body: Object) -> Deletion:
        """Parse a request's body; an empty one means the defaults."""
        preconditions = body.get("preconditions") or {}
        return cls(
            grace_seconds=body.get("gracePeriodSeconds"),
            uid=preconditions.get("uid"),
            resource_version=preconditions.get("resourceVersion"),
            propagation=body.get("propagationPolicy") or "Background",
        )


@dataclass(slots=True)
class Registry:
    """The verbs over one storage."""

    store: Storage
    now: Callable[[], datetime]
    schemas: dict[str, CustomSchema] = field(default_factory=dict)
    """Schemas of custom kinds by plural name; a kind without one stores any content."""
    pod_quota: dict[str, int] = field(default_factory=dict)
    """The most pods that a namespace may have; more are refused with 403."""
    pod_admission: Callable[[Object], str | None] = lambda _pod: None
    """Why a pod is refused with 403 (LimitRange, policies); None lets it pass."""
    _service_ips: int = 0

    # create ------------------------------------------------------------------------------

    def create(self, kind: Kind, namespace: str, body: Object, *, strict: bool = False) -> Object:
        """Handle the POST of one object; raises Refusal."""
        obj = self._incoming(kind, namespace, body)
        metadata = obj["metadata"]
        if metadata.get("resourceVersion"):
            raise bad_request("resourceVersion should not be set on objects to be created")
        if not metadata.get("name"):
            if not metadata.get("generateName"):
                raise invalid(kind, "", [("metadata.name", "Required value: name or generateName is required")])
            metadata["name"] = metadata["generateName"] + uuid.uuid4().hex[:5]
        name, key = metadata["name"], (namespace, metadata["name"])
        if kind.namespaced:
            self._namespace_open(kind, namespace, name)
        if kind == PODS and (why := self.pod_admission(obj)) is not None:
            raise forbidden(kind, name, why)
        for server_field in (
            "uid",
            "creationTimestamp",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "generation",
        ):
            metadata.pop(server_field, None)
        if kind.custom:
            obj.pop("status", None)
            obj = self._schema(kind, obj, None, strict=strict)
        else:
            obj = core.defaulted(kind, obj, self._service_ips)
        core.validate(kind, obj, None)
        if kind == PODS:
            self._within_quota(namespace, name)
        if self.store.get(kind, key) is not None:
            raise already_exists(kind, name)
        if kind.plural == "services":
            self._service_ips += 1
        metadata = {**obj["metadata"], "uid": str(uuid.uuid4()), "creationTimestamp": timestamp(self.now())}
        if kind.counts_generations:
            metadata["generation"] = 1
        obj = {**obj, "metadata": metadata}
        return self.store.put(kind, key, obj)

    def _incoming(self, kind: Kind, namespace: str, body: Any) -> Object:
        if not isinstance(body, dict) or not isinstance(body.get("metadata", {}), dict):
            raise bad_request("the body is not an object")
        obj: Object = copied(body)
        for name, expected in (("apiVersion", kind.api_version), ("kind", kind.kind)):
            if obj.setdefault(name, expected) != expected:
                raise bad_request(
                    f"the object provided is unrecognized: {name} is {obj[name]!r}, expected {expected!r}"
                )
        metadata = obj.setdefault("metadata", {})
        if kind.namespaced and metadata.setdefault("namespace", namespace) != namespace:
            raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
        return obj

    def _namespace_open(self, kind: Kind, namespace: str, name: str) -> None:
        found = self.store.get(NAMESPACES, ("", namespace))
        if found is None:
            raise not_found(NAMESPACES, namespace)
        if found["metadata"].get("deletionTimestamp"):
            why = f"unable to create new content in namespace {namespace} because it is being terminated"
            raise forbidden(kind, name, why, cause="NamespaceTerminating")

    def _within_quota(self, namespace: str, name: str) -> None:
        limit = self.pod_quota.get(namespace)
        if limit is None:
            return
        used = sum(
            pod["status"].get("phase") not in {"Succeeded", "Failed"} for _, pod in self.store.items(PODS, namespace)
        )
        if used >= limit:
            raise forbidden(
                PODS, name, f"exceeded quota: pods, requested: pods=1, used: pods={used}, limited: pods={limit}"
            )

    def _schema(self, kind: Kind, new: Object, old: Object | None, *, strict: bool = False) -> Object:
        schema = self.schemas.get(kind.plural)
        return schema.admit(kind, new, old, strict=strict) if schema else new

    # read --------------------------------------------------------------------------------

    def get(self, kind: Kind, namespace: str, name: str) -> Object:
        """Return the current state; raises a 404."""
        found = self.store.get(kind, (namespace, name))
        if found is None:
            raise not_found(kind, name)
        return found

    # update ------------------------------------------------------------------------------

    def update(self, kind: Kind, namespace: str, name: str, body: Object, *, subresource: str = "") -> Object:
        """Handle the PUT of an object or of its status; raises Refusal."""
        new = self._incoming(kind, namespace, body)
        if new["metadata"].setdefault("name", name) != name:
            raise bad_request(
                f"the name of the object ({new['metadata']['name']}) does not match the name on the URL ({name})"
            )
        old = self.store.get(kind, (namespace, name))
        if old is None:
            if kind.create_on_update and not new["metadata"].get("uid"):
                new["metadata"].pop("resourceVersion", None)
                return self.create(kind, namespace, new)
            raise not_found(kind, name)
        if not kind.unconditional_update and not new["metadata"].get("resourceVersion"):
            raise invalid(
                kind, name, [("metadata.resourceVersion", "Invalid value: 0: must be specified for an update")]
            )
        return self._replace(kind, old, new, subresource)

    def patch(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        body: Any,
        content_type: str,
        *,
        subresource: str = "",
    ) -> Object:
        """Handle the PATCH of an object or of its status; raises Refusal."""
        old = self.store.get(kind, (namespace, name))
        if old is None:
            raise not_found(kind, name)
        if content_type == patch.JSON_PATCH:
            new = patch.json_patch(old, body)
        elif content_type == patch.MERGE_PATCH:
            new = patch.merge(old, body)
        elif content_type == patch.STRATEGIC_PATCH and not kind.custom:
            new = patch.strategic(old, body)
        else:
            raise Refusal(
                415, "UnsupportedMediaType", f"the body of the request was in an unknown format: {content_type}"
            )
        if not isinstance(new, dict) or not isinstance(new.get("metadata"), dict):
            raise bad_request("the patch does not leave an object")
        return self._replace(kind, old, copied(new), subresource)

    def _same(self, kind: Kind, old: Object, new: Object) -> None:
        name = old["metadata"]["name"]
        version = new["metadata"].get("resourceVersion")
        if version and version != old["metadata"]["resourceVersion"]:
            raise conflict(kind, name)
        uid = new["metadata"].get("uid")
        if uid and uid != old["metadata"]["uid"]:
            why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {old['metadata']['uid']}"
            raise conflict(kind, name, why)

    def _replace(self, kind: Kind, old: Object, new: Object, subresource: str) -> Object:
        self._same(kind, old, new)
        metadata = new["metadata"]
        if metadata.get("name") != old["metadata"]["name"]:
            raise invalid(kind, old["metadata"]["name"], [("metadata.name", "Invalid value: field is immutable")])
        for name in (*IDENTITY_FIELDS, "resourceVersion"):
            metadata.pop(name, None)
            if name in old["metadata"]:
                metadata[name] = old["metadata"][name]
        if old["metadata"].get("deletionTimestamp"):
            added = set(metadata.get("finalizers") or []) - set(old["metadata"].get("finalizers") or [])
            if added:
                why = "Forbidden: no new finalizers can be added if the object is being deleted"
                raise invalid(kind, metadata["name"], [("metadata.finalizers", f"{why}, found new {sorted(added)}")])
        new = self._isolated(kind, old, new, subresource)
        if kind.custom:
            new = self._schema(kind, new, old)
        core.validate(kind, new, old)
        return self._commit(kind, old, new)

    def _isolated(self, kind: Kind, old: Object, new: Object, subresource: str) -> Object:
        """Isolate the status subresource: it changes the status alone, and nothing else changes the status."""
        if subresource == "status":
            if kind.custom:
                result = {name: value for name, value in old.items() if name != "status"}
            else:
                owners = {name: old["metadata"][name] for name in ("ownerReferences",) if name in old["metadata"]}
                kept = {name: value for name, value in new["metadata"].items() if name != "ownerReferences"}
                result = {**old, "metadata": {**kept, **owners}}
            if "status" in new:
                result["status"] = new["status"]
            return result
        if "status" in kind.subresources:
            new.pop("status", None)
            if "status" in old:
                new["status"] = old["status"]
        return new

    def _commit(self, kind: Kind, old: Object, new: Object) -> Object:
        if old == new:
            return old
        if kind.counts_generations and _beside_metadata(old) != _beside_metadata(new):
            new = {**new, "metadata": {**new["metadata"], "generation": old["metadata"].get("generation", 0) + 1}}
        key = (new["metadata"].get("namespace", ""), new["metadata"]["name"])
        stored = self.store.put(kind, key, new)
        metadata = stored["metadata"]
        if (
            metadata.get("deletionTimestamp")
            and not metadata.get("finalizers")
            and not metadata.get("deletionGracePeriodSeconds")
        ):
            return self.store.remove(kind, key)
        return stored

    # delete ------------------------------------------------------------------------------

    def delete(self, kind: Kind, namespace: str, name: str, options: Deletion | None = None) -> tuple[Object, bool]:
        """Handle a DELETE; returns the last state and whether the object is gone already."""
        options = options or Deletion()
        old = self.get(kind, namespace, name)
        metadata = old["metadata"]
        if options.uid and options.uid != metadata["uid"]:
            why = f"Precondition failed: UID in precondition: {options.uid}, UID in object meta: {metadata['uid']}"
            raise conflict(kind, name, why)
        if options.resource_version and options.resource_version != metadata["resourceVersion"]:
            why = f"Precondition failed: ResourceVersion in precondition: {options.resource_version}, "
            raise conflict(kind, name, why + f"ResourceVersion in object meta: {metadata['resourceVersion']}")
        if kind == NAMESPACES:
            return self._terminate_namespace(old), False
        grace = self._grace(kind, old, options)
        finalizers = list(metadata.get("finalizers") or [])
        extra = {"Foreground": "foregroundDeletion", "Orphan": "orphan"}.get(options.propagation)
        if extra and extra not in finalizers:
            finalizers.append(extra)
        if not finalizers and grace == 0:
            return self.store.remove(kind, (namespace, name)), True
        if metadata.get("deletionTimestamp") and grace >= metadata.get("deletionGracePeriodSeconds", 0):
            return old, False
        marks: dict[str, Any] = {
            "deletionTimestamp": timestamp(self.now() + timedelta(seconds=grace)),
            "deletionGracePeriodSeconds": grace,
        }
        if finalizers:
            marks["finalizers"] = finalizers
        if kind.counts_generations and not metadata.get("deletionTimestamp"):
            marks["generation"] = metadata.get("generation", 0) + 1
        return self.store.put(kind, (namespace, name), {**old, "metadata": {**metadata, **marks}}), False

    def _grace(self, kind: Kind, old: Object, options: Deletion) -> int:
        if kind != PODS:
            return 0
        if not old["spec"].get("nodeName") or old["status"].get("phase") in {"Succeeded", "Failed"}:
            return 0
        if options.grace_seconds is not None:
            return max(options.grace_seconds, 0)
        return int(old["spec"]["terminationGracePeriodSeconds"])

    def _terminate_namespace(self, old: Object) -> Object:
        if old["metadata"].get("deletionTimestamp"):
            return old
        metadata = {**old["metadata"], "deletionTimestamp": timestamp(self.now()), "deletionGracePeriodSeconds": 0}
        new = {**old, "metadata": metadata, "status": {**old.get("status", {}), "phase": "Terminating"}}
        return self.store.put(NAMESPACES, ("", metadata["name"]), new)


def _beside_metadata(obj: Object) -> Object:
    return {name: value for name, value in obj.items() if name not in {"metadata", "status"}}
