"""What is known of the cluster: jobs, their pods and services."""

from __future__ import annotations

from dataclasses import fields
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from dtj_operator.api.resource import Job, managed_here
from dtj_operator.domain.pods import view_pod, view_service
from dtj_operator.domain.snapshot import Pod
from dtj_operator.runtime.shelf import Shelf
from dtj_operator.runtime.source import Key

if TYPE_CHECKING:
    from collections.abc import Callable

    from dtj_operator.domain.snapshot import Service

JOB_NAME_LABEL = "dtj.dev/job-name"
_visible = attrgetter(*(field.name for field in fields(Pod) if field.name != "resource_version"))


class KnownJob:
    """A job as last seen: parsed when first asked for, the raw text dropped then."""

    __slots__ = (
        "_before",
        "_job",
        "_raw",
        "deleting",
        "generation",
        "managed_here",
        "name",
        "namespace",
        "resource_version",
        "status",
        "uid",
    )

    def __init__(self, raw: dict[str, Any], before: Job | None) -> None:
        """`before`: the same or another job of that name as it was parsed last."""
        metadata = raw["metadata"]
        self.namespace: str = metadata["namespace"]
        self.name: str = metadata["name"]
        self.uid: str = metadata["uid"]
        self.resource_version: str = metadata["resourceVersion"]
        self.generation: int = metadata.get("generation") or 0
        self.deleting: bool = bool(metadata.get("deletionTimestamp"))
        self.managed_here: bool = managed_here((raw.get("spec") or {}).get("managedBy") or "")
        self.status: dict[str, Any] = raw.get("status") or {}
        """As on the wire."""
        self._raw: dict[str, Any] | None = raw
        self._before = before
        self._job: Job | None = None

    @property
    def job(self) -> Job:
        """Raises ValueError when the object does not fit the schema this operator knows."""
        if self._job is None:
            if self._raw is None:
                raise AssertionError
            self._job = Job.parse(self._raw, self._before)
            self._raw = self._before = None
        return self._job

    @property
    def parsed(self) -> Job | None:
        """The latest that has been parsed, this or one before."""
        return self._job or self._before


class Store:
    """Every known object, by job. `changed` is called with the key of each job that needs another look."""

    def __init__(self, changed: Callable[[Key], None]) -> None:
        self.jobs: Shelf[KnownJob] = Shelf(view=self._known, key=_own_key, changed=changed, matters=_always)
        self.pods: Shelf[Pod] = Shelf(view=view_pod, key=_job_key, changed=changed, matters=_pod_differs)
        self.services: Shelf[Service] = Shelf(view=view_service, key=_job_key, changed=changed, matters=_differs)

    def job(self, key: Key) -> KnownJob | None:
        """The job of that name, if there is one."""
        held = self.jobs.held(key, key.name)
        return held.value if held else None

    def _known(self, raw: dict[str, Any]) -> KnownJob:
        before = self.job(_own_key(raw))
        return KnownJob(raw, before.parsed if before else None)

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
