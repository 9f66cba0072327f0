"""What is known of the cluster: jobs, their pods and services."""

from __future__ import annotations

from dataclasses import fields
from operator import attrgetter
from sys import intern
from typing import TYPE_CHECKING, Any

from dtj_operator.api.enums import Role
from dtj_operator.api.job import METADATA, Job, managed_here
from dtj_operator.cache.indexer import Shelf
from dtj_operator.cache.namespaced_name import Key
from dtj_operator.cache.transforms import view_pod, view_service
from dtj_operator.kube import serializer
from dtj_operator.reconcile.state.snapshot import Pod

if TYPE_CHECKING:
    from collections.abc import Callable

    from dtj_operator.reconcile.state.snapshot import Service

JOB_NAME_LABEL = "dtj.dev/job-name"
_visible = attrgetter(*(field.name for field in fields(Pod) if field.name != "resource_version"))


class KnownJob:
    """A job as last seen. Its text is kept and read anew for each look: read, it takes ten times the memory."""

    __slots__ = (
        "_status",
        "_success_role",
        "_text",
        "completed",
        "deleting",
        "generation",
        "managed_here",
        "name",
        "namespace",
        "phase",
        "resource_version",
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
        self.managed_here: bool = managed_here((raw.get("spec") or {}).get("managedBy") or "")
        self.phase: str = intern(str(status.get("phase") or ""))
        """Empty when nobody has looked at the job yet."""
        self.completed: bool = bool(status.get("completionTime"))
        kept = {name: metadata.get(name) for name in METADATA}
        self._text = serializer.dumps({"metadata": kept, "spec": raw.get("spec") or {}})
        self._status = serializer.dumps(status)
        self._success_role: Role | None = None

    @property
    def status(self) -> dict[str, Any]:
        """As on the wire."""
        return serializer.loads(self._status)

    def read(self) -> Job:
        """The whole of it, as the decisions see it."""
        return Job.parse({**serializer.loads(self._text), "status": self.status})

    @property
    def success_role(self) -> Role:
        """Chief, or worker where there is none."""
        if self._success_role is None:
            self._success_role = Role.CHIEF if self.read().spec.replicas(Role.CHIEF) else Role.WORKER
        return self._success_role


class Store:
    """Every known object, by job. `changed` is called with the key of each job that needs another look."""

    def __init__(self, changed: Callable[[Key], None]) -> None:
        self.jobs: Shelf[KnownJob] = Shelf(view=KnownJob, key=_own_key, changed=changed, matters=_always)
        self.pods: Shelf[Pod] = Shelf(view=view_pod, key=_job_key, changed=changed, matters=_pod_differs)
        self.services: Shelf[Service] = Shelf(view=view_service, key=_job_key, changed=changed, matters=_differs)

    def job(self, key: Key) -> KnownJob | None:
        """The job of that name, if there is one."""
        held = self.jobs.held(key, key.name)
        return held.value if held else None

    def service(self, key: Key) -> Service | None:
        """Whatever we know to have the name of the job's service."""
        held = self.services.held(key, key.name)
        return held.value if held else None

    def on_node(self, node: str) -> set[Key]:
        """The jobs with a pod on that node."""
        return {key for key, pod in self.pods.all() if pod.node == node}


def _own_key(raw: dict[str, Any]) -> Key:
    return Key(raw["metadata"]["namespace"], raw["metadata"]["name"])


def _job_key(raw: dict[str, Any]) -> Key | None:
    metadata = raw["metadata"]
    name = (metadata.get("labels") or {}).get(JOB_NAME_LABEL)
    return Key(metadata["namespace"], name) if name else None


def _always(_old: object, _new: object) -> bool:
    return True


def _differs(old: object, new: object) -> bool:
    return old != new


def _pod_differs(old: Pod, new: Pod) -> bool:
    """Most updates of a pod change nothing that a decision looks at."""
    return _visible(old) != _visible(new)
