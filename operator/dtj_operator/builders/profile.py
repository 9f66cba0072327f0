"""A profile: settings of pods that the administrator gives a name, and that are merged under a job's own templates."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from dtj_operator.api.enums import Role
from dtj_operator.builders.main_container import containers, main_container_index

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dtj_operator.api.job import Job

PARTS = frozenset({"metadata", "spec", "mainContainer", "roles"})
MERGE_KEYS: Mapping[str, str] = {
    "containers": "name",
    "initContainers": "name",
    "env": "name",
    "volumes": "name",
    "imagePullSecrets": "name",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "ports": "containerPort",
    "hostAliases": "ip",
    "topologySpreadConstraints": "topologyKey",
}
"""By list, the field that tells its entries apart, as in Kubernetes' strategic merge."""
JOINED = frozenset({"tolerations"})
"""Lists without such a field, of which both sides are kept."""


class ProfileError(Exception):
    """A profile that cannot be used; the message is a sentence."""


@dataclass(frozen=True, slots=True)
class Profile:
    """One profile, as its ConfigMap has it."""

    name: str
    hash: str
    """16 hex digits of its text."""
    template: Mapping[str, Any]
    """metadata and spec of a PodTemplateSpec."""
    main_container: Mapping[str, Any] = field(default_factory=dict)
    """What is merged under the main container, whatever that is called."""
    roles: frozenset[Role] = frozenset(Role)
    """The roles that it is for."""

    @classmethod
    def parse(cls, name: str, text: str) -> Profile:
        """Parse the YAML of a profile. Raises ProfileError."""
        import yaml  # noqa: PLC0415  (only operators with profiles need it)

        try:
            found = yaml.safe_load(text)
        except yaml.YAMLError as error:
            place = getattr(error, "problem_mark", None)
            where = f" in line {place.line + 1}" if place else ""
            raise ProfileError(f"profile {name} is no YAML{where}") from error
        if not isinstance(found, dict) or not found.keys() <= PARTS:
            raise ProfileError(f"profile {name} has to be an object of metadata, spec, mainContainer and roles")
        wrong = [part for part in ("metadata", "spec", "mainContainer") if not isinstance(found.get(part, {}), dict)]
        if wrong:
            raise ProfileError(f"{wrong[0]} of profile {name} has to be an object")
        roles = found.get("roles", list(Role))
        if not isinstance(roles, list) or not set(map(str, roles)) <= set(Role):
            raise ProfileError(f"roles of profile {name} has to be a list of {', '.join(Role)}")
        for part in ("metadata", "spec", "mainContainer"):
            _check_lists(found.get(part, {}), part, name)
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        template = {part: found[part] for part in ("metadata", "spec") if part in found}
        return cls(name, digest, template, found.get("mainContainer", {}), frozenset(map(Role, roles)))


def _check_lists(value: Mapping[str, Any], path: str, profile: str) -> None:
    """Raise ProfileError for a list that cannot be merged."""
    for name, below in value.items():
        place = f"{path}.{name}"
        if isinstance(below, dict):
            _check_lists(below, place, profile)
        elif name in MERGE_KEYS and not (isinstance(below, list) and all(isinstance(one, dict) for one in below)):
            raise ProfileError(f"{place} of profile {profile} has to be a list of objects")


def apply_profile(job: Job, profile: Profile) -> Job:
    """Return the job with the profile merged under its templates."""
    merged = {
        role: replica.model_copy(update={"template": _merged(job, replica.template, profile)})
        if role in profile.roles
        else replica
        for role, replica in job.spec.replica_specs.items()
    }
    return replace(job, spec=job.spec.model_copy(update={"replica_specs": merged}), written_spec=job.spec)


def _merged(job: Job, template: Mapping[str, Any], profile: Profile) -> dict[str, Any]:
    given = dict(template)
    if profile.main_container and containers(template):
        position = main_container_index(job.spec, template)
        patched = list(containers(template))
        patched[position] = merge(profile.main_container, patched[position])
        given["spec"] = given["spec"] | {"containers": patched}
    return merge(profile.template, given)


def merge(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return both objects as one: of what both have, `over` wins; entries of lists are told apart by MERGE_KEYS."""
    result = dict(over)
    for name, value in under.items():
        mine = over.get(name)
        if mine is None:
            result[name] = value
        elif isinstance(value, dict) and isinstance(mine, dict):
            result[name] = merge(value, mine)
        elif isinstance(value, list) and isinstance(mine, list):
            result[name] = _merge_lists(name, value, mine)
    return result


def _merge_lists(name: str, under: Sequence[Any], over: Sequence[Any]) -> list[Any]:
    if name in JOINED:
        return [*over, *(entry for entry in under if entry not in over)]
    key = MERGE_KEYS.get(name)
    if key is None:
        return list(over)
    below = {entry.get(key): entry for entry in under}
    own = [merge(below.pop(entry.get(key), {}), entry) for entry in over]
    return [*own, *below.values()]
