"""The profiles of one ConfigMap in the operator's namespace."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from dtj_operator.builders.profile import Profile, ProfileError, apply_profile
from dtj_operator.kube.errors import NotFound, Refused
from dtj_operator.kube.resources import CONFIG_MAPS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dtj_operator.api.job import Job
    from dtj_operator.kube.client import ApiClient

FRESH_SECONDS = 5.0
"""The ConfigMap is not read again within this time, however many jobs ask."""


class Profiles:
    """Reads the ConfigMap when a job needs it. The profiles that were in use are kept, by their hash."""

    def __init__(self, client: ApiClient, namespace: str, config_map: str) -> None:
        """Without a name of a ConfigMap there are no profiles."""
        self._client, self._namespace, self._config_map = client, namespace, config_map
        self._texts: Mapping[str, str] = {}
        self._problem = ""
        self._read_at = -FRESH_SECONDS
        self._by_hash: dict[str, Profile] = {}

    async def apply(self, job: Job) -> tuple[Job, str | None]:
        """Return the job with its profile merged in, and the hash of that; or with the problem of its profile.

        All pods of one attempt get the same: the profile that status names by its hash, unless this process has never
        read that one. Raises KubeError.
        """
        if not job.spec.profile:
            return job, None
        await self._refresh()
        try:
            latest = self._find(job.spec.profile)
        except ProfileError as error:
            return replace(job, profile_problem=str(error)), None
        return apply_profile(job, latest), latest.hash

    def apply_used(self, job: Job) -> Job:
        """Return the job with the profile merged in that its status names, which `apply` has read."""
        profile = self._by_hash.get(job.status.profile_hash or "")
        return apply_profile(job, profile) if profile and job.spec.profile else job

    def knows(self, profile_hash: str | None) -> bool:
        """Return whether this process has read the profile of that hash."""
        return profile_hash in self._by_hash

    async def _refresh(self) -> None:
        now = time.monotonic()
        if not self._config_map or now < self._read_at + FRESH_SECONDS:
            return
        try:
            found = await self._client.get(CONFIG_MAPS, self._namespace, self._config_map)
            self._texts, self._problem = found.get("data") or {}, ""
        except (NotFound, Refused) as error:
            self._texts, self._problem = {}, error.message
        self._read_at = now

    def _find(self, name: str) -> Profile:
        if not self._config_map:
            raise ProfileError(f"spec.profile is {name}, and this operator has no profiles: see its flag --profiles")
        place = f"ConfigMap {self._config_map} in namespace {self._namespace}"
        if self._problem:
            raise ProfileError(f"spec.profile is {name}, and the operator cannot read the {place}: {self._problem}")
        if name not in self._texts:
            known = ", ".join(sorted(self._texts)) or "no other"
            raise ProfileError(f"there is no profile {name} in the {place}; it has {known}")
        profile = Profile.parse(name, self._texts[name])
        return self._by_hash.setdefault(profile.hash, profile)
