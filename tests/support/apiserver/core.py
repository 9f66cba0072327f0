"""Defaults, validation and immutable fields of pods, services and other core kinds."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from tests.support.apiserver.errors import bad_request, invalid

if TYPE_CHECKING:
    from tests.support.apiserver.kinds import Kind, Object

SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
LABEL_1035: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
LABEL_VALUE: Final = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")

POD_DEFAULTS: Final[Object] = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "securityContext": {},
    "schedulerName": "default-scheduler",
    "enableServiceLinks": True,
    "preemptionPolicy": "PreemptLowerPriority",
    "priority": 0,
    "serviceAccountName": "default",
    "serviceAccount": "default",
    "tolerations": [
        {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
        {
            "key": "node.kubernetes.io/unreachable",
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": 300,
        },
    ],
}
CONTAINER_DEFAULTS: Final[Object] = {
    "resources": {},
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
    "imagePullPolicy": "IfNotPresent",
}
MUTABLE_POD_FIELDS: Final = (
    "activeDeadlineSeconds",
    "tolerations",
    "terminationGracePeriodSeconds",
    "schedulingGates",
    "nodeName",
)


def defaulted(kind: Kind, obj: Object, cluster_ips: int) -> Object:
    """Return the object as it is stored at creation; `cluster_ips` counts services so far."""
    if kind.plural == "pods":
        return _pod(obj)
    if kind.plural == "services":
        return _service(obj, cluster_ips)
    if kind.plural == "namespaces":
        return {**obj, "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}
    return obj


def _pod(obj: Object) -> Object:
    given = (obj.get("spec") or {}).items()
    spec = {**POD_DEFAULTS, **{name: value for name, value in given if value is not None}}
    for name in ("containers", "initContainers"):
        if name in spec:
            spec[name] = [_container(container) for container in spec[name] or []]
    return {**obj, "spec": spec, "status": {"phase": "Pending", "qosClass": "BestEffort"}}


def _container(container: Any) -> Object:
    if not isinstance(container, dict):
        raise bad_request(f"json: cannot unmarshal {container!r} into Go struct field PodSpec of type v1.Container")
    full = {**CONTAINER_DEFAULTS, **container}
    if "ports" in full:
        full["ports"] = [{"protocol": "TCP", **port} for port in full["ports"]]
    return full


def _service(obj: Object, cluster_ips: int) -> Object:
    spec: Object = {
        "type": "ClusterIP",
        "sessionAffinity": "None",
        "internalTrafficPolicy": "Cluster",
        **(obj.get("spec") or {}),
    }
    spec.setdefault("clusterIP", f"10.0.{cluster_ips // 250}.{cluster_ips % 250 + 1}")
    spec.setdefault("clusterIPs", [spec["clusterIP"]])
    spec.setdefault("ipFamilies", ["IPv4"])
    spec.setdefault("ipFamilyPolicy", "SingleStack")
    if "ports" in spec:
        spec["ports"] = [{"protocol": "TCP", "targetPort": port.get("port"), **port} for port in spec["ports"] or []]
    return {**obj, "spec": spec, "status": {"loadBalancer": {}}}


def validate(kind: Kind, new: Object, old: Object | None) -> None:
    """Raise a 422 for what the real server would refuse in a core kind."""
    causes = [*_metadata_causes(kind, new)]
    if kind.plural == "pods":
        causes += _pod_causes(new["spec"], old["spec"] if old else None)
    if kind.plural == "services" and old is not None and old["spec"]["clusterIP"] != new["spec"].get("clusterIP"):
        causes.append(("spec.clusterIPs[0]", "Invalid value: may not change once set"))
    if kind.plural == "leases":
        duration = new.get("spec", {}).get("leaseDurationSeconds")
        if duration is not None and duration <= 0:
            causes.append(("spec.leaseDurationSeconds", f"Invalid value: {duration}: must be greater than 0"))
    if causes:
        raise invalid(kind, new["metadata"]["name"], causes)


def _metadata_causes(kind: Kind, obj: Object) -> list[tuple[str, str]]:
    name = obj["metadata"]["name"]
    causes = []
    pattern, limit = (LABEL_1035, 63) if kind.plural == "services" else (SUBDOMAIN, 253)
    if not pattern.fullmatch(name) or len(name) > limit:
        causes.append(
            (
                "metadata.name",
                f'Invalid value: "{name}": must be a DNS name of at most {limit} characters ({pattern.pattern})',
            )
        )
    for key, value in (obj["metadata"].get("labels") or {}).items():
        if not isinstance(value, str) or len(value) > 63 or not LABEL_VALUE.fullmatch(value):
            causes.append(
                (
                    "metadata.labels",
                    f'Invalid value: "{value}": a valid label must match {LABEL_VALUE.pattern} (label {key})',
                )
            )
    for at, owner in enumerate(obj["metadata"].get("ownerReferences") or []):
        causes += [
            (f"metadata.ownerReferences[{at}].{field}", "Invalid value: must not be empty")
            for field in ("apiVersion", "kind", "name", "uid")
            if not owner.get(field)
        ]
    return causes


POD_TYPES: dict[str, type] = {"hostname": str, "nodeName": str, "subdomain": str, "terminationGracePeriodSeconds": int}
"""Types of the fields of a pod that this server reads itself."""


def _pod_causes(spec: Object, old: Object | None) -> list[tuple[str, str]]:
    causes: list[tuple[str, str]] = []
    if not spec.get("containers"):
        causes.append(("spec.containers", "Required value"))
    names: set[str] = set()
    for at, container in enumerate(spec.get("containers") or []):
        place = f"spec.containers[{at}]"
        causes += [(f"{place}.{field}", "Required value") for field in ("name", "image") if not container.get(field)]
        if container.get("name") in names:
            causes.append((f"{place}.name", f'Duplicate value: "{container["name"]}"'))
        names.add(container.get("name", ""))
        causes += _env_causes(place, container.get("env") or [])
    causes += [
        (f"spec.{field}", f"Invalid value: {spec[field]!r}: must be of type {wanted.__name__}")
        for field, wanted in POD_TYPES.items()
        if field in spec and not isinstance(spec[field], wanted)
    ]
    if spec["restartPolicy"] not in {"Always", "OnFailure", "Never"}:
        causes.append(
            (
                "spec.restartPolicy",
                f'Unsupported value: "{spec["restartPolicy"]}": supported values: "Always", "OnFailure", "Never"',
            )
        )
    for field in ("hostname", "subdomain"):
        value = spec.get(field)
        if isinstance(value, str) and value and (len(value) > 63 or "." in value or not SUBDOMAIN.fullmatch(value)):
            causes.append((f"spec.{field}", f'Invalid value: "{value}": must be a DNS label of at most 63 characters'))
    if old is not None and _fixed(spec) != _fixed(old):
        causes.append(
            (
                "spec",
                "Forbidden: pod updates may not change fields other than image, activeDeadlineSeconds and tolerations",
            )
        )
    return causes


def _env_causes(place: str, env: list[Any]) -> list[tuple[str, str]]:
    causes = []
    for at, entry in enumerate(env):
        if not entry.get("name"):
            causes.append((f"{place}.env[{at}].name", "Required value"))
        if not isinstance(entry.get("value", ""), str):
            causes.append((f"{place}.env[{at}].value", "Invalid value: must be a string"))
    return causes


def _fixed(spec: Object) -> Object:
    fixed = {field: value for field, value in spec.items() if field not in MUTABLE_POD_FIELDS}
    fixed["containers"] = [{**container, "image": ""} for container in spec.get("containers") or []]
    return fixed
