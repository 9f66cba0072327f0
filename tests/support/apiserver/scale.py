"""The scale subresource of custom kinds (autoscaling/v1 Scale), by the three paths in the CRD."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.support.apiserver.copies import copied
from tests.support.apiserver.errors import bad_request

if TYPE_CHECKING:
    from tests.support.apiserver.kinds import Object

DEFAULT_PATHS = {
    "specReplicasPath": ".spec.replicaSpecs.worker.replicas",
    "statusReplicasPath": ".status.replicaStatuses.worker.created",
    "labelSelectorPath": ".status.selector",
}


def paths_of(crd: Object | None) -> dict[str, str]:
    """The paths, from the CRD when there is one."""
    if crd is None:
        return DEFAULT_PATHS
    found: dict[str, str] = crd["spec"]["versions"][0].get("subresources", {}).get("scale") or DEFAULT_PATHS
    return found


def _at(obj: Object, path: str) -> Any:
    value: Any = obj
    for part in path.strip(".").split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def scale_of(obj: Object, paths: dict[str, str]) -> Object:
    """The Scale of an object."""
    metadata = {
        name: obj["metadata"][name] for name in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    }
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": metadata,
        "spec": {"replicas": _at(obj, paths["specReplicasPath"]) or 0},
        "status": {
            "replicas": _at(obj, paths["statusReplicasPath"]) or 0,
            "selector": _at(obj, paths["labelSelectorPath"]) or "",
        },
    }


def scaled(obj: Object, scale: Object, paths: dict[str, str]) -> Object:
    """The object with the number of replicas that a Scale asks for."""
    replicas = (scale.get("spec") or {}).get("replicas", 0)
    if not isinstance(replicas, int) or replicas < 0:
        raise bad_request(f"spec.replicas: Invalid value: {replicas!r}: must be greater than or equal to 0")
    result = copied(obj)
    value: Any = result
    *parents, last = paths["specReplicasPath"].strip(".").split(".")
    for part in parents:
        value = value.setdefault(part, {})
    value[last] = replicas
    version = (scale.get("metadata") or {}).get("resourceVersion")
    if version:
        result["metadata"]["resourceVersion"] = version
    return result
