"""The schema of a pod template in the CRD. No field of a template is lost.

A CEL rule compares a template with its former value, and `==` ignores keys that the schema does
not declare. Therefore every field of PodSpec and Container in Kubernetes 1.35 is declared by name,
without a type. Newer fields are kept as well; the spec hash detects their changes.
"""

from __future__ import annotations

from typing import Any

from dtj_operator.api.constants import CONTAINERS_MAX, ENVIRONMENT_MAX

Schema = dict[str, Any]

POD_SPEC_FIELDS = (
    "activeDeadlineSeconds",
    "affinity",
    "automountServiceAccountToken",
    "dnsConfig",
    "dnsPolicy",
    "enableServiceLinks",
    "ephemeralContainers",
    "hostAliases",
    "hostIPC",
    "hostNetwork",
    "hostPID",
    "hostUsers",
    "hostname",
    "hostnameOverride",
    "imagePullSecrets",
    "initContainers",
    "nodeName",
    "nodeSelector",
    "os",
    "overhead",
    "preemptionPolicy",
    "priority",
    "priorityClassName",
    "readinessGates",
    "resourceClaims",
    "resources",
    "restartPolicy",
    "runtimeClassName",
    "schedulerName",
    "schedulingGates",
    "securityContext",
    "serviceAccount",
    "serviceAccountName",
    "setHostnameAsFQDN",
    "shareProcessNamespace",
    "subdomain",
    "terminationGracePeriodSeconds",
    "tolerations",
    "topologySpreadConstraints",
    "volumes",
    "workloadRef",
)

CONTAINER_FIELDS = (
    "args",
    "command",
    "envFrom",
    "imagePullPolicy",
    "lifecycle",
    "livenessProbe",
    "ports",
    "readinessProbe",
    "resizePolicy",
    "resources",
    "restartPolicy",
    "restartPolicyRules",
    "securityContext",
    "startupProbe",
    "stdin",
    "stdinOnce",
    "terminationMessagePath",
    "terminationMessagePolicy",
    "tty",
    "volumeDevices",
    "volumeMounts",
    "workingDir",
)

ENVIRONMENT_FIELDS = ("value", "valueFrom")

METADATA_FIELDS = ("annotations", "finalizers", "generateName", "labels", "name", "namespace")


def pod_template_schema() -> Schema:
    """Return the schema of `spec.replicaSpecs.*.template`."""
    return _open(
        "The pod template of this role. Every field of a PodTemplateSpec is kept; hostname, "
        "subdomain, restartPolicy and the dtj.dev labels are set by the operator.",
        metadata=_open("Labels and annotations of the pods.", **_typeless(METADATA_FIELDS)),
        spec=_open(
            "The PodSpec, as in Kubernetes' own documentation.",
            containers={
                "type": "array",
                "description": "The containers of the pod; see spec.mainContainer.",
                "maxItems": CONTAINERS_MAX,
                "x-kubernetes-list-type": "atomic",
                "items": _container(),
            },
            **_typeless(POD_SPEC_FIELDS),
        ),
    )


def _container() -> Schema:
    return _open(
        "A container, as in Kubernetes' own documentation.",
        name=_text("Name of the container.", 63),
        image=_text("Image of the container.", 1024),
        env={
            "type": "array",
            "description": "Environment of the container. TF_CONFIG and the nine DTJ_ variables "
            "of the main container are set by the operator.",
            "maxItems": ENVIRONMENT_MAX,
            "x-kubernetes-list-type": "atomic",
            "items": _open(
                "An environment variable.",
                name=_text("Name of the variable.", 256),
                **_typeless(ENVIRONMENT_FIELDS),
            ),
        },
        **_typeless(CONTAINER_FIELDS),
    )


def _open(description: str, **properties: Schema) -> Schema:
    """Return the schema of an object that keeps undeclared fields."""
    return {
        "type": "object",
        "description": description,
        "x-kubernetes-preserve-unknown-fields": True,
        "properties": dict(sorted(properties.items())),
    }


def _typeless(names: tuple[str, ...]) -> dict[str, Schema]:
    return {
        name: {
            "description": f"{name} as in Kubernetes' own documentation.",
            "x-kubernetes-preserve-unknown-fields": True,
        }
        for name in names
    }


def _text(description: str, longest: int) -> Schema:
    return {"type": "string", "description": description, "maxLength": longest}
