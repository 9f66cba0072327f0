"""The CustomResourceDefinition, generated from the models; `make generate` writes it to crds/."""

from __future__ import annotations

from typing import Any

import yaml

from dtj_operator.api.cel.rules import RULES_BY_PATH
from dtj_operator.api.constants import (
    CATEGORIES,
    GROUP,
    KEYS_MAX,
    KIND,
    PLURAL,
    ROLES_MAX,
    SHORT_NAME,
    SINGULAR,
    VERSION,
)
from dtj_operator.api.pod_template_schema import pod_template_schema
from dtj_operator.api.spec import JobSpec
from dtj_operator.api.status import JobStatus
from dtj_operator.api.structural_schema import Schema, structural_schema

COLUMNS = (
    ("State", "string", ".status.phase", 0, "State in one word."),
    ("Strategy", "string", ".status.strategy.type", 0, "Strategy in use."),
    ("Workers", "string", ".status.workers", 0, "Ready and desired chief and worker pods."),
    ("Restarts", "integer", ".status.restarts.total", 0, "Incidents that led to a restart."),
    ("Step", "integer", ".status.progress.step", 0, "Completed training steps."),
    ("Age", "date", ".metadata.creationTimestamp", 0, "Time since the job was created."),
    ("In-Place", "integer", ".status.restarts.inPlace", 1, "Recoveries in place, without a new pod."),
    ("Message", "string", ".status.message", 1, "What the job waits for, or what happened last."),
)


def crd() -> dict[str, Any]:
    """Return the CustomResourceDefinition as a dict."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PLURAL}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": KIND,
                "listKind": f"{KIND}List",
                "plural": PLURAL,
                "singular": SINGULAR,
                "shortNames": [SHORT_NAME],
                "categories": list(CATEGORIES),
            },
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "subresources": {
                        "status": {},
                        "scale": {
                            "specReplicasPath": ".spec.replicaSpecs.worker.replicas",
                            "statusReplicasPath": ".status.replicaStatuses.worker.created",
                            "labelSelectorPath": ".status.selector",
                        },
                    },
                    "additionalPrinterColumns": [
                        {
                            "name": name,
                            "type": kind,
                            "jsonPath": path,
                            "priority": priority,
                            "description": description,
                        }
                        for name, kind, path, priority, description in COLUMNS
                    ],
                    "schema": {"openAPIV3Schema": _job()},
                }
            ],
        },
    }


def crd_yaml() -> str:
    """Return the CustomResourceDefinition as YAML."""
    head = "# Made by `dtj-operator crd` from operator/dtj_operator/api; do not edit.\n"
    return head + yaml.dump(crd(), Dumper=_InFull, sort_keys=False, width=100, allow_unicode=True)


class _InFull(yaml.SafeDumper):
    """A dumper without anchors and aliases, because not every YAML reader follows them."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True


def _job() -> Schema:
    schema: Schema = {
        "type": "object",
        "description": "A TensorFlow training job on one or many pods.",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string", "description": "dtj.dev/v1alpha1."},
            "kind": {"type": "string", "description": "DistributedTrainingJob."},
            "metadata": {"type": "object"},
            "spec": _spec(),
            "status": _status(),
        },
    }
    for place, rules in RULES_BY_PATH.items():
        _at(schema, place)["x-kubernetes-validations"] = [rule.wire() for rule in rules]
    return schema


def _spec() -> Schema:
    schema = structural_schema(JobSpec)
    properties = schema["properties"]
    roles = properties["replicaSpecs"]
    roles["maxProperties"] = ROLES_MAX
    roles["additionalProperties"]["properties"]["template"] = pod_template_schema()
    reasons = properties["failurePolicy"]["properties"]["rules"]["items"]["properties"]["reasons"]
    reasons["items"]["maxLength"] = KEYS_MAX
    return schema


def _status() -> Schema:
    schema = structural_schema(JobStatus)
    conditions = schema["properties"]["conditions"]
    conditions["x-kubernetes-list-type"] = "map"
    conditions["x-kubernetes-list-map-keys"] = ["type"]
    # The status has one writer: the API server need not compute the owner of each field with every write.
    schema["x-kubernetes-map-type"] = "atomic"
    _open(schema)
    return schema


def _open(schema: Schema) -> None:
    """Let a schema of status accept what another version writes: no enums, and unknown fields are kept.

    Defaults go too: the operator writes the whole status.
    """
    schema.pop("default", None)
    schema.pop("enum", None)
    if "properties" in schema:
        schema["x-kubernetes-preserve-unknown-fields"] = True
    for child in schema.get("properties", {}).values():
        _open(child)
    for inner in ("items", "additionalProperties"):
        if isinstance(schema.get(inner), dict):
            _open(schema[inner])


def _at(schema: Schema, place: str) -> Schema:
    """Return the schema of a field by its path; a star is every entry of a map or list."""
    for name in place.split(".") if place else ():
        if name == "*":
            schema = schema["additionalProperties"] if "additionalProperties" in schema else schema["items"]
        else:
            schema = schema["properties"][name]
    return schema
