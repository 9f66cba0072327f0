"""Jobs that the API server accepts, made by Hypothesis from the schema of the CRD alone: what a user may write,
sensible or not. Where a rule refuses what was made, the field that it names is left out, as its sentence asks.
"""

from __future__ import annotations

from typing import Any, Final

import yaml
from hypothesis import reject
from hypothesis import strategies as st

from tests.support.apiserver.errors import Refusal
from tests.support.apiserver.kinds import JOBS
from tests.support.apiserver.schema import CustomSchema
from tests.support.apiserver.server import CRD_FILE
from tests.support.job_builder import UID, template

Schema = dict[str, Any]
SCHEMA: Final = CustomSchema.of(yaml.load(CRD_FILE.read_text(), yaml.CSafeLoader), JOBS.version)
SPEC: Final[Schema] = SCHEMA.root["properties"]["spec"]
ROLES: Final = ("chief", "worker", "ps", "evaluator")
MENDED: Final = 4
"""So often a refusal is heeded; then the job is given up."""
MOST_OPTIONAL: Final = 4
"""Fields of one object that are set beside the required ones."""

NONSENSE: Final = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-5, 70_000), st.text(max_size=5)),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(st.text(max_size=5), inner, max_size=2)),
    max_leaves=4,
)
"""The value of a field that the schema keeps as it is."""

WITHIN_REASON: Final[dict[str, st.SearchStrategy[Any]]] = {
    "spec.replicaSpecs.*.replicas": st.integers(0, 3),
    "spec.mainContainer": st.sampled_from(["", "tensorflow", "side"]),
    "spec.managedBy": st.sampled_from(["", "", "dtj.dev/operator", "elsewhere"]),
    "spec.replicaSpecs.*.template.spec.containers[].name": st.sampled_from(["tensorflow", "side", "other"]),
    "spec.replicaSpecs.*.template.spec.containers[].env[].name": st.sampled_from(["A", "DTJ_UID", "PATH"]),
}
"""Fields of which any value would be too many pods, or next to never one that a rule lets pass."""
WANTED: Final = {
    "spec.replicaSpecs.*.template": {"spec"},
    "spec.replicaSpecs.*.template.spec": {"containers"},
    "spec.replicaSpecs.*.template.spec.containers[]": {"name", "image"},
}
"""What rules require beside the schema."""


def values(schema: Schema, path: str) -> st.SearchStrategy[Any]:
    """Anything that the schema accepts there."""
    if path in WITHIN_REASON:
        return WITHIN_REASON[path]
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    made = {"object": _objects, "array": _lists, "integer": _integers, "string": _texts, "boolean": _booleans}
    return made.get(schema.get("type", ""), _nonsense)(schema, path)


def _lists(schema: Schema, path: str) -> st.SearchStrategy[Any]:
    least = 1 if path.endswith(".containers") else schema.get("minItems", 0)
    return st.lists(values(schema["items"], f"{path}[]"), min_size=least, max_size=3)


def _integers(schema: Schema, _path: str) -> st.SearchStrategy[Any]:
    least, most = schema.get("minimum", -(2**63)), schema.get("maximum", 2**63 - 1)
    return st.one_of(st.integers(least, least + 3), st.sampled_from([0, 1, 9, 42, 143, most]).filter(least.__le__))


def _texts(schema: Schema, path: str) -> st.SearchStrategy[Any]:
    return st.text(min_size=path.endswith(".image"), max_size=min(12, schema["maxLength"]))


def _booleans(_schema: Schema, _path: str) -> st.SearchStrategy[Any]:
    return st.booleans()


def _nonsense(_schema: Schema, _path: str) -> st.SearchStrategy[Any]:
    return NONSENSE


@st.composite
def _objects(draw: st.DrawFn, schema: Schema, path: str) -> dict[str, Any]:
    if isinstance(others := schema.get("additionalProperties"), dict):
        roles = draw(st.lists(st.sampled_from(ROLES), min_size=1, max_size=4, unique=True))
        return {role: draw(values(others, f"{path}.*")) for role in roles}
    properties: dict[str, Schema] = schema["properties"]
    names = {*schema.get("required", ()), *WANTED.get(path, ())}
    names |= draw(st.sets(st.sampled_from(sorted(properties)), max_size=MOST_OPTIONAL))
    return {name: draw(values(properties[name], f"{path}.{name}")) for name in sorted(names)}


@st.composite
def accepted_jobs(draw: st.DrawFn) -> dict[str, Any]:
    """A job as the server stores it, new."""
    job = {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.kind,
        "metadata": {"name": "train", "namespace": "team", "uid": UID, "generation": 1},
        "spec": draw(values(SPEC, "spec")),
    }
    for _ in range(MENDED):
        try:
            return SCHEMA.admit(JOBS, job, None)
        except Refusal as refusal:
            for cause in refusal.details["causes"]:
                place = cause["field"].split(".")
                if place[0] != "spec":  # what the rules themselves cannot read
                    return reject()
                _leave_out(job["spec"], place[1])
    return reject()


def _leave_out(spec: dict[str, Any], field: str) -> None:
    if field != "replicaSpecs":
        spec.pop(field, None)
        return
    for name in ("strategy", "mainContainer"):
        spec.pop(name, None)
    kept = {role: wanted for role, wanted in spec["replicaSpecs"].items() if role in {"worker", "evaluator"}}
    spec["replicaSpecs"] = {"worker": {"template": template()}} | kept
    for wanted in spec["replicaSpecs"].values():
        wanted.pop("restartPolicy", None)


def endless(raw: dict[str, Any]) -> dict[str, Any]:
    """The spec without what ends the job by time, or has it looked after by others."""
    deadlines = {"activeDeadlineSeconds", "startDeadlineSeconds"}
    spec = {name: value for name, value in raw["spec"].items() if name not in deadlines}
    return spec | {"managedBy": ""}
