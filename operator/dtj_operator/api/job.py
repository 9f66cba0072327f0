"""A DistributedTrainingJob, parsed from the JSON of the API server."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from dtj_operator.api.constants import LEVELS_MAX, MANAGED_BY
from dtj_operator.api.persisted_state import STATE_VERSION
from dtj_operator.api.spec import JobSpec
from dtj_operator.api.status import JobStatus
from dtj_operator.api.wire_model import parse_time

if TYPE_CHECKING:
    from collections.abc import Mapping

METADATA = (
    "name",
    "namespace",
    "uid",
    "generation",
    "resourceVersion",
    "creationTimestamp",
    "deletionTimestamp",
)
"""The metadata fields that the operator reads."""
CHANGEABLE: dict[str, Any] = {
    "suspend": True,
    "ttl_seconds_after_finished": True,
    "active_deadline_seconds": True,
    "clean_pod_policy": True,
    "managed_by": True,
    "failure_policy": {"max_restarts"},
    "replica_specs": {"worker": {"replicas"}},
}
"""The fields that may change while a job runs, in the form of pydantic's `exclude`."""
_EMPTY_SPEC = JobSpec(replica_specs={})
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Job:
    """The metadata, spec and status of one job."""

    name: str
    namespace: str
    uid: str
    generation: int
    resource_version: str
    created_at: datetime
    deleted_at: datetime | None
    spec: JobSpec
    status: JobStatus
    written_spec: JobSpec | None = None
    """The spec as its user wrote it, where `spec` has a profile in it."""
    profile_problem: str = ""
    """Why the profile of the spec cannot be used, in one sentence."""
    problem: str = ""
    """Why the spec cannot be parsed, in one sentence; `spec` is empty then."""
    later_status: str = ""
    """Why the status, which a later version wrote, cannot be acted upon; `status` may be empty then."""

    @classmethod
    def parse(cls, raw: Mapping[str, Any]) -> Job:
        """Parse the JSON of the API server.

        Never raises for an object that the API server has accepted: if an older schema accepted
        an invalid spec, `problem` says what is wrong.
        """
        meta = raw.get("metadata") or {}
        spec, problem = _spec(raw.get("spec") or {})
        status, later_status = _status(raw.get("status") or {})
        return cls(
            name=meta.get("name", ""),
            namespace=meta.get("namespace", ""),
            uid=meta.get("uid", ""),
            generation=int(meta.get("generation") or 0),
            resource_version=str(meta.get("resourceVersion", "")),
            created_at=parse_time(meta.get("creationTimestamp")) or _EPOCH,
            deleted_at=parse_time(meta.get("deletionTimestamp")),
            spec=spec,
            status=status,
            problem=problem,
            later_status=later_status,
        )

    @property
    def without_checkpoints(self) -> bool:
        """Whether the job has several pods and no checkpoints, so that one failure loses all its work."""
        pods = sum(replica.replicas for replica in self.spec.replica_specs.values())
        return pods > 1 and not self.spec.checkpoint.directory

    @property
    def managed_by_external_controller(self) -> bool:
        """Whether `spec.managedBy` leaves this job to another controller."""
        return not managed_here(self.spec.managed_by)


def managed_here(manager: str) -> bool:
    """Tell whether this value of `spec.managedBy` means this operator."""
    return manager in {"", MANAGED_BY}


def spec_hash(spec: JobSpec) -> str:
    """Return 16 hex digits over all fields that must not change while the job runs.

    Defaults are left out, so that a new field in a later version changes no hash.
    """
    return _digest(_fixed_fields(spec))


def has_hash(spec: JobSpec, known: str) -> bool:
    """Tell whether this is the hash of the spec, or of one that differs only in fields that may change.

    A failurePolicy of which only such fields are set is in the hash, as an empty one; one that is not set is not.
    """
    fixed = _fixed_fields(spec)
    if _digest(fixed) == known:
        return True
    if fixed.pop("failurePolicy", None):
        return False
    return known in {_digest(fixed), _digest(fixed | {"failurePolicy": {}})}


def _fixed_fields(spec: JobSpec) -> dict[str, Any]:
    return spec.model_dump(mode="json", by_alias=True, exclude=CHANGEABLE, exclude_defaults=True)


def _digest(fields: dict[str, Any]) -> str:
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _spec(raw: Mapping[str, Any]) -> tuple[JobSpec, str]:
    """Return the spec, or an empty one and the reason why it cannot be parsed."""
    problem = _depth_problem(raw)
    if not problem:
        try:
            return JobSpec.model_validate(raw), ""
        except ValidationError as error:
            problem = _first(error)
    manager = str(raw.get("managedBy") or "")
    return _EMPTY_SPEC.model_copy(update={"managed_by": manager}), f"spec cannot be read: {problem}"


def _status(raw: Mapping[str, Any]) -> tuple[JobStatus, str]:
    """Return the status, and the reason why it cannot be acted upon; an empty one if it cannot be parsed."""
    try:
        status = JobStatus.model_validate(raw)
    except ValidationError as error:
        return JobStatus(), f"this one cannot read {_first(error)}"
    version = status.persisted_state.version
    later = f"its state has version {version}, and this one knows up to {STATE_VERSION}"
    return status, later if version > STATE_VERSION else ""


def _depth_problem(raw: Mapping[str, Any]) -> str:
    """Tell whether a template nests too deeply; the schema cannot limit that in undeclared fields."""
    level: list[Any] = [raw]
    for _ in range(LEVELS_MAX):
        below = (one.values() if isinstance(one, dict) else one for one in level)
        level = [inner for values in below for inner in values if isinstance(inner, (dict, list))]
        if not level:
            return ""
    return f"a template nests more than {LEVELS_MAX} lists and objects, which no pod does"


def _first(error: ValidationError) -> str:
    detail = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = ".".join(str(part) for part in detail["loc"])
    return f"{place}: {detail['msg']}"
