"""Jobs that the API server accepts and that are made to hurt an operator which serves everybody."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, Phase, given, settings

from tests.support.specs import accepted_jobs

Spec = dict[str, Any]
IMAGE = "example.org/train:1"
SLOW_PATTERN = r"(a|b|ab){43}c"
"""Among the patterns that RE2 takes longest to match."""


def _worker(replicas: int, *, metadata: Spec | None = None, pod: Spec | None = None, **container: Any) -> Spec:
    containers = [{"name": "tensorflow", "image": IMAGE, **container}]
    template = {"metadata": metadata or {}, "spec": {"containers": containers, **(pod or {})}}
    return {"worker": {"replicas": replicas, "template": template}}


def _rules(pattern: str, count: int) -> Spec:
    rules = [{"messagePattern": f"{pattern}{number:02}", "action": "Ignore"} for number in range(count)]
    return {"rules": rules}


def _nested(levels: int) -> Any:
    value: Any = "deep"
    for _ in range(levels):
        value = [value]
    return value


HOSTILE: dict[str, Spec] = {
    "as many replicas as the schema allows, with the longest addresses": {
        "replicaSpecs": _worker(2000),
        "clusterDomain": ".".join(["d" * 60] * 4),
    },
    "patterns that take too much memory": {
        "replicaSpecs": _worker(1),
        "failurePolicy": _rules(r"\pL{400}a", 32),
    },
    "as many slow patterns as are allowed together": {
        "replicaSpecs": _worker(1),
        "failurePolicy": _rules(SLOW_PATTERN, 10),
    },
    "more slow patterns than are allowed together": {
        "replicaSpecs": _worker(1),
        "failurePolicy": _rules(SLOW_PATTERN, 32),
    },
    "a template of half a megabyte": {
        "replicaSpecs": _worker(4, env=[{"name": f"E{number}", "value": "x" * 1000} for number in range(500)]),
    },
    "a template that nests as deep as is allowed": {
        "replicaSpecs": _worker(1, pod={"affinity": {"unknown": _nested(180)}}),
    },
    "a template that nests deeper": {"replicaSpecs": _worker(1, pod={"affinity": {"unknown": _nested(220)}})},
    "labels and variables of the operator": {
        "replicaSpecs": _worker(
            2,
            metadata={"labels": {"dtj.dev/attempt": "9007199254740991", "dtj.dev/job-name": "other"}},
            env=[{"name": "DTJ_ATTEMPT", "value": "9007199254740991"}, {"name": "DTJ_UID", "value": "other"}],
        ),
    },
    "pods that never go": {"replicaSpecs": _worker(2, metadata={"finalizers": ["example.org/never"]})},
    "the largest numbers": {
        "replicaSpecs": _worker(1),
        "activeDeadlineSeconds": 2**31 - 1,
        "ttlSecondsAfterFinished": 2**31 - 1,
        "failurePolicy": {
            "maxRestarts": 2**31 - 1,
            "backoff": {"initialSeconds": 2**31 - 1, "maxSeconds": 2**31 - 1, "resetAfterSeconds": 2**31 - 1},
        },
    },
    "pods that the server refuses": {"replicaSpecs": _worker(8, resources={"limits": {"cpu": "no number"}})},
}
"""By what is hostile about them."""


def fuzzed(count: int) -> list[Spec]:
    """Return so many specs that are made from the schema of the CRD, the same each time."""
    found: list[Spec] = []

    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(accepted_jobs())
    def collect(raw: Spec) -> None:
        found.append(raw["spec"])

    collect()
    return found[:count]
