"""JobCache: the known jobs, their pods and services; and the live read of one object.

Labels belong to the tenant: pods and services are those of the job that their owner reference names. A label only says
which objects the watches see; one that has lost it is read from time to time instead.
"""

from __future__ import annotations

from dataclasses import fields
from operator import attrgetter
from sys import intern
from typing import TYPE_CHECKING, Any

from dtj_operator.api.constants import GROUP, KIND, LABEL_JOB_NAME
from dtj_operator.api.enums import Role
from dtj_operator.api.job import METADATA, Job, managed_here
from dtj_operator.cache.indexer import Indexer
from dtj_operator.cache.namespaced_name import NamespacedName
from dtj_operator.cache.transforms import controller_reference, pod_from_json, service_from_json
from dtj_operator.kube import serializer
from dtj_operator.kube.errors import NotFound
from dtj_operator.kube.resources import JOBS, PODS, SERVICES
from dtj_operator.reconcile.state.snapshot import Pod

if TYPE_CHECKING:
    from collections.abc import Callable

    from dtj_operator.kube.client import ApiClient
    from dtj_operator.kube.resources import GroupVersionResource
    from dtj_operator.reconcile.state.snapshot import Service

_decision_fields = attrgetter(*(field.name for field in fields(Pod) if field.name != "resource_version"))


class CachedJob:
    """A job as last seen, kept as text and parsed for each reconciliation: parsed, it takes ten times the memory."""

    __slots__ = (
        "_status",
        "_success_role",
        "_text",
        "completed",
        "deleting",
        "generation",
        "managed_by_external_controller",
        "name",
        "namespace",
        "phase",
        "resource_version",
        "strategy",
        "uid",
    )

    def __init__(self, raw: dict[str, Any]) -> None:
        metadata = raw["metadata"]
        status = raw.get("status") or {}
        self.namespace: str = intern(metadata["namespace"])
        self.name: str = metadata["name"]
        self.uid: str = metadata["uid"]
        self.resource_version: str = metadata["resourceVersion"]
        self.generation: int = metadata.get("generation") or 0
        self.deleting: bool = bool(metadata.get("deletionTimestamp"))
        self.managed_by_external_controller: bool = not managed_here((raw.get("spec") or {}).get("managedBy") or "")
        self.phase: str = intern(str(status.get("phase") or ""))
        """Empty when the job has never been reconciled."""
        self.strategy: str = intern(str((status.get("strategy") or {}).get("type") or ""))
        """The one that was chosen; empty before that."""
        self.completed: bool = bool(status.get("completionTime"))
        kept = {name: metadata.get(name) for name in METADATA}
        self._text = serializer.dumps({"metadata": kept, "spec": raw.get("spec") or {}})
        self._status = serializer.dumps(status)
        self._success_role: Role | None = None

    @property
    def status(self) -> dict[str, Any]:
        """The status as in the API."""
        return serializer.loads(self._status)

    def parse(self) -> Job:
        """Parse the whole job."""
        return Job.parse({**serializer.loads(self._text), "status": self.status})

    @property
    def success_role(self) -> Role:
        """The role whose replica 0 decides about success: chief, or worker where there is none."""
        if self._success_role is None:
            self._success_role = Role.CHIEF if self.parse().spec.replicas(Role.CHIEF) else Role.WORKER
        return self._success_role


class JobCache:
    """All known jobs, pods and services. `on_change` is called with the key of each job that must be reconciled."""

    def __init__(self, on_change: Callable[[NamespacedName], None]) -> None:
        self.jobs: Indexer[CachedJob] = Indexer(transform=CachedJob, key=_own_key, on_change=on_change, changed=_always)
        self.pods: Indexer[Pod] = Indexer(
            transform=pod_from_json, key=_job_key, on_change=on_change, changed=_pod_differs, watched=_has_label
        )
        self.services: Indexer[Service] = Indexer(
            transform=service_from_json, key=_job_key, on_change=on_change, changed=_differs, watched=_has_label
        )
        self._indexers: dict[GroupVersionResource, Indexer[Any]] = {
            JOBS: self.jobs,
            PODS: self.pods,
            SERVICES: self.services,
        }

    def indexer(self, resource: GroupVersionResource) -> Indexer[Any]:
        """Return the indexer of jobs, pods or services."""
        return self._indexers[resource]

    def job(self, key: NamespacedName) -> CachedJob | None:
        """Return a job by name."""
        entry = self.jobs.get(key, key.name)
        return entry.value if entry else None

    def handled_jobs(self) -> list[CachedJob]:
        """Return all jobs but those that another controller manages."""
        return [cached for _, cached in self.jobs.items() if not cached.managed_by_external_controller]

    def service(self, key: NamespacedName) -> Service | None:
        """Return the service that has the name of the job's, whoever owns it."""
        entry = self.services.get(key, key.name)
        return entry.value if entry else None

    def jobs_on_node(self, node: str) -> set[NamespacedName]:
        """Return the jobs with a pod on that node."""
        return {key for key, pod in self.pods.items() if pod.node == node}

    async def refresh(
        self, client: ApiClient, resource: GroupVersionResource, namespace: str, name: str, uid: str
    ) -> dict[str, Any] | None:
        """Read one object from the API server and return it; the cached one of `uid` goes if another has its name."""
        indexer = self.indexer(resource)
        found = await read_live(client, resource, namespace, name)
        if found is None or found["metadata"]["uid"] != uid:
            indexer.remove(uid)
        if found is not None:
            self.take_live(resource, found)
        return found

    def take_live(self, resource: GroupVersionResource, raw: dict[str, Any]) -> None:
        """Take in an object that has just been read from the API server."""
        indexer = self.indexer(resource)
        if resource is JOBS or _has_label(raw):
            # The watch sees it: what that has called deleted since the read stays so.
            indexer.upsert(raw)
        else:
            indexer.restore(raw)


async def read_live(
    client: ApiClient, resource: GroupVersionResource, namespace: str, name: str
) -> dict[str, Any] | None:
    """Read one object from the API server; None where there is none."""
    try:
        return await client.get(resource, namespace, name)
    except NotFound:
        return None


def _own_key(raw: dict[str, Any]) -> NamespacedName:
    return NamespacedName(raw["metadata"]["namespace"], raw["metadata"]["name"])


def _job_key(raw: dict[str, Any]) -> NamespacedName | None:
    """Return the job whose pod or service this is, by its owner; without one, the job whose label it has."""
    metadata = raw["metadata"]
    owner = controller_reference(metadata)
    ours = owner.get("kind") == KIND and str(owner.get("apiVersion")).startswith(f"{GROUP}/")
    name = owner.get("name") if ours else (metadata.get("labels") or {}).get(LABEL_JOB_NAME)
    return NamespacedName(metadata["namespace"], name) if name else None


def _has_label(raw: dict[str, Any]) -> bool:
    return LABEL_JOB_NAME in (raw["metadata"].get("labels") or {})


def _always(_old: object, _new: object) -> bool:
    return True


def _differs(old: object, new: object) -> bool:
    return old != new


def _pod_differs(old: Pod, new: Pod) -> bool:
    """Tell whether a pod changed for `decide`; most updates of a pod do not."""
    return _decision_fields(old) != _decision_fields(new)
