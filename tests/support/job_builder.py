"""A builder for one job and everything that the operator can know of it.

    world = job(worker=3).running().pod("worker", 1, failed(143, disruption="PreemptionByScheduler"))
    outcome = world.decide()
    assert outcome.creates == ["train-worker-1"]

It is also a small simulation: `act()` applies a plan as the API server would, so that a
test can go on with `later()` and see what the next pass decides.
"""

from __future__ import annotations

import copy
import itertools
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Self

from dtj_operator.api.enums import ConditionType, Role
from dtj_operator.api.job import Job
from dtj_operator.api.status import JobStatus
from dtj_operator.api.unknown_fields import keep_unknown_fields
from dtj_operator.builders.pod import build_pod
from dtj_operator.builders.service import build_service
from dtj_operator.cache.transforms import pod_from_json, service_from_json
from dtj_operator.reconcile.decide import decide
from dtj_operator.reconcile.state.blocked_writes import BlockedReason, BlockedWrite, record_refusal
from dtj_operator.reconcile.state.plan import (
    Action,
    CreatePod,
    CreateService,
    DeleteJob,
    DeletePod,
    DeleteService,
    Event,
    Plan,
)
from dtj_operator.reconcile.state.snapshot import Node, Snapshot

NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
UID = "11111111-1111-1111-1111-111111111111"
IMAGE = "example.org/train:1"

Change = dict[str, Any]
"""A pod's status and metadata, as far as a helper below changes it."""


def template(**spec: Any) -> dict[str, Any]:
    """Return a pod template with one container named `tensorflow`."""
    return {"spec": {"containers": [{"name": "tensorflow", "image": IMAGE}], **spec}}


def failed(
    exit_code: int = 1,
    *,
    reason: str = "Error",
    message: str = "",
    disruption: str = "",
    pod_reason: str = "",
) -> Change:
    """A pod whose main container ended with that code."""
    change: Change = {
        "phase": "Failed",
        "end": {"exitCode": exit_code, "reason": reason, "message": message},
    }
    if disruption:
        change["conditions"] = [{"type": "DisruptionTarget", "status": "True", "reason": disruption}]
    if pod_reason:
        change["reason"] = pod_reason
    return change


def told(exit_class: str, exit_code: int, **more: Any) -> Change:
    """A pod whose main container ended with our trainer's termination message."""
    return failed(exit_code, message=json.dumps({"class": exit_class, "exitCode": exit_code, **more}))


def evicted(reason: str = "Evicted") -> Change:
    """A pod that the kubelet has refused or evicted: no container has ended."""
    return {"phase": "Failed", "reason": reason, "conditions": []}


def done(reason: str = "Completed", message: str = "") -> Change:
    """A pod whose main container ended with code 0."""
    end = {"exitCode": 0, "reason": reason, "message": message}
    return {"phase": "Succeeded", "end": end, "conditions": []}


def ready() -> Change:
    """A pod that runs and is Ready."""
    return {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}


def not_ready() -> Change:
    """A pod that runs and is not Ready."""
    return {"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}]}


def pending(waiting: str = "", message: str = "", *, node: str = "") -> Change:
    """A pod that does not run yet."""
    change: Change = {"phase": "Pending", "conditions": [], "node": node}
    if waiting:
        change["waiting"] = {"reason": waiting, "message": message}
    return change


def unschedulable(message: str) -> Change:
    """A pod that no node fits."""
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": message,
    }
    return {"phase": "Pending", "conditions": [condition], "node": ""}


def ended_beside(name: str, exit_code: int) -> Change:
    """A pod whose main container runs, and another one has ended."""
    return {**not_ready(), "beside": {"name": name, "state": {"terminated": {"exitCode": exit_code}}}}


def terminating() -> Change:
    """A pod with a deletionTimestamp."""
    return {"deleted": True}


def restarted(count: int, exit_code: int, *, reason: str = "Error", message: str = "") -> Change:
    """A pod whose main container the kubelet has restarted in place."""
    last = {"exitCode": exit_code, "reason": reason, "message": message}
    return {**ready(), "restarts": count, "last": last}


@dataclass
class Outcome:
    """A plan, with shortcuts for assertions."""

    plan: Plan
    job_name: str

    @property
    def status(self) -> JobStatus:
        """The status to persist; fails if the plan is to keep hands off."""
        assert self.plan.status is not None
        return self.plan.status

    @property
    def creates(self) -> list[str]:
        """Names of pods to create."""
        return [f"{self.job_name}-{a.role}-{a.index}" for a in self.plan.actions if isinstance(a, CreatePod)]

    def restarts_of(self, role: str) -> int:
        """How many pods of the role were replaced or restarted."""
        return self.status.replica_statuses[Role(role)].restarts

    @property
    def deletes(self) -> list[str]:
        """Names of pods to delete."""
        return [a.name for a in self.plan.actions if isinstance(a, DeletePod)]

    @property
    def events(self) -> list[str]:
        """Reasons of the events."""
        return [event.reason for event in self.plan.events]

    def event(self, reason: str) -> Event:
        """The one event of that reason."""
        (found,) = [event for event in self.plan.events if event.reason == reason]
        return found

    def has(self, kind: type[Action]) -> bool:
        """Tell whether the plan has an action of that type."""
        return any(isinstance(action, kind) for action in self.plan.actions)

    def holds(self, condition: str) -> bool:
        """Tell whether a condition is True."""
        return self.status.holds(ConditionType(condition))

    def true(self) -> set[str]:
        """Types of the conditions that hold."""
        return {str(c.type) for c in self.status.conditions if c.holds}

    def reason(self, kind: str) -> str:
        """Reason of a condition."""
        return next(c.reason for c in self.status.conditions if c.type == kind)


@dataclass
class JobBuilder:
    """One job, its pods and its service, at one time."""

    raw: dict[str, Any]
    now: datetime = NOW
    pods: dict[str, dict[str, Any]] = field(default_factory=dict)
    service: dict[str, Any] | None = None
    blocked_writes: list[BlockedWrite] = field(default_factory=list)
    lost_nodes: set[str] = field(default_factory=set)
    node_count: int | None = None
    events: list[Event] = field(default_factory=list)
    writes: int = 0
    job_deleted: bool = False
    uids: Any = field(default_factory=lambda: itertools.count(1))

    # What there is

    @property
    def job(self) -> Job:
        """The job as the operator parses it."""
        return Job.parse(copy.deepcopy(self.raw))

    @property
    def status(self) -> JobStatus:
        """The status as it stands in the API."""
        return self.job.status

    def snapshot(self) -> Snapshot:
        """What the runtime would gather."""
        return Snapshot(
            job=self.job,
            pods=tuple(pod_from_json(pod) for pod in self.pods.values()),
            service=service_from_json(self.service) if self.service else None,
            blocked_writes=tuple(self.blocked_writes),
            nodes={name: Node(name, lost=True) for name in self.lost_nodes},
            node_count=self.node_count,
        )

    # What happens

    def spec(self, **changes: Any) -> Self:
        """Change fields of the spec by their API names."""
        for name, value in changes.items():
            old = self.raw["spec"].get(name)
            merge = isinstance(value, dict) and isinstance(old, dict)
            self.raw["spec"][name] = {**old, **value} if merge else value
        self.raw["metadata"]["generation"] += 1
        return self

    def scale(self, workers: int) -> Self:
        """Change the number of workers."""
        self.raw["spec"]["replicaSpecs"]["worker"]["replicas"] = workers
        self.raw["metadata"]["generation"] += 1
        return self

    def pod(self, role: str, index: int, *changes: Change) -> Self:
        """Change the pod of a replica."""
        pod = self.pods[f"{self.raw['metadata']['name']}-{role}-{index}"]
        for change in changes:
            self._change(pod, change)
        return self

    def each(self, *changes: Change) -> Self:
        """Change every pod that has not ended."""
        for pod in self.pods.values():
            if pod["status"]["phase"] not in {"Succeeded", "Failed"}:
                for change in changes:
                    self._change(pod, change)
        return self

    def vanish(self, role: str, index: int) -> Self:
        """The pod object is gone."""
        del self.pods[f"{self.raw['metadata']['name']}-{role}-{index}"]
        return self

    def lose(self, node: str) -> Self:
        """Mark the node as lost."""
        self.lost_nodes.add(node)
        return self

    def node_of(self, role: str, index: int) -> str:
        """Where a pod runs."""
        name = f"{self.raw['metadata']['name']}-{role}-{index}"
        return str(self.pods[name]["spec"].get("nodeName", ""))

    def refuse(self, kind: BlockedReason, target: str, message: str = "refused") -> Self:
        """The API server refuses to create that object."""
        before = next((blocked for blocked in self.blocked_writes if blocked.target == target), None)
        generation = self.raw["metadata"]["generation"]
        self.blocked_writes = [blocked for blocked in self.blocked_writes if blocked is not before]
        self.blocked_writes.append(
            record_refusal(kind, target, message, generation=generation, now=self.now, before=before)
        )
        return self

    def later(self, seconds: float) -> Self:
        """Time passes."""
        self.now += timedelta(seconds=seconds)
        return self

    # Passes

    def decide(self) -> Outcome:
        """One pass, without any effect."""
        return Outcome(decide(self.snapshot(), self.now), self.raw["metadata"]["name"])

    def act(self) -> Outcome:
        """One pass, and its effects: status, then actions, then events."""
        outcome = self.decide()
        self.apply(outcome.plan)
        return outcome

    def apply(self, plan: Plan) -> None:
        """Carry out a plan as the runtime and the API server do."""
        if plan.status is None:
            return
        wire = keep_unknown_fields(JobStatus, self.raw.get("status") or {}, plan.status.wire())
        if wire != self.raw.get("status"):
            self.raw["status"] = wire
            self.writes += 1
        for action in plan.actions:
            self._carry_out(action)
        self.events.extend(plan.events)

    def reconcile(self, passes: int = 10) -> Self:
        """Run passes until there is nothing to do."""
        for _ in range(passes):
            writes = self.writes
            outcome = self.act()
            if self.job_deleted or (not outcome.plan.actions and self.writes == writes):
                return self
        raise AssertionError(f"not finished after {passes} passes: {self.decide().plan}")

    def label(self, role: str, index: int, name: str) -> str:
        """One of our labels of a pod."""
        labels = self.pods[f"{self.raw['metadata']['name']}-{role}-{index}"]["metadata"]["labels"]
        return str(labels[f"dtj.dev/{name}"])

    def holds(self, condition: str) -> bool:
        """Tell whether a condition is True."""
        return self.status.holds(ConditionType(condition))

    def restarts_of(self, role: str) -> int:
        """How many pods of the role were replaced or restarted."""
        return self.status.replica_statuses[Role(role)].restarts

    def running(self) -> Self:
        """Started, all pods Ready."""
        return self.reconcile().each(ready()).reconcile()

    def seen(self, reason: str) -> list[str]:
        """Messages of the events of that reason so far."""
        return [event.message for event in self.events if event.reason == reason]

    def reap(self) -> Self:
        """The kubelet has stopped every terminating pod, and they are gone."""
        gone = [n for n, pod in self.pods.items() if pod["metadata"].get("deletionTimestamp")]
        for name in gone:
            del self.pods[name]
        return self

    def _carry_out(self, action: Action) -> None:
        match action:
            case CreateService():
                assert self.service is None, "a second service"
                self.service = self._created(build_service(self.job))
            case DeleteService(uid):
                if self.service and self.service["metadata"]["uid"] == uid:
                    self.service = None
            case CreatePod(role, index, attempt):
                pod = self._created(build_pod(self.job, role, index, attempt))
                name = pod["metadata"]["name"]
                if name not in self.pods:
                    pod["spec"]["nodeName"] = f"node-{next(self.uids)}"
                    pod["status"] = {"phase": "Pending"}
                    self.pods[name] = pod
            case DeletePod(name, uid, force):
                pod = self.pods.get(name, {})
                if pod and pod["metadata"]["uid"] == uid:
                    ended = pod["status"].get("phase") in {"Succeeded", "Failed"}
                    at_once = ended or not pod["spec"].get("nodeName")
                    first = not pod["metadata"].get("deletionTimestamp")
                    if not pod["metadata"].get("finalizers") and (force or (at_once and first)):
                        del self.pods[name]
                    else:
                        self._change(pod, terminating())
            case DeleteJob():
                self.job_deleted = True

    def _created(self, raw: dict[str, Any]) -> dict[str, Any]:
        raw["metadata"]["uid"] = f"uid-{next(self.uids)}"
        raw["metadata"]["creationTimestamp"] = _text(self.now)
        return raw

    def _change(self, pod: dict[str, Any], change: Change) -> None:
        status = pod["status"]
        for name in ("phase", "reason", "conditions"):
            if name in change:
                status[name] = change[name]
        if "node" in change:
            pod["spec"]["nodeName"] = change["node"]
        if change.get("deleted"):
            pod["metadata"].setdefault("deletionTimestamp", _text(self.now))
        container: dict[str, Any] = {"name": pod["spec"]["containers"][0]["name"]}
        if "end" in change:
            container["state"] = {"terminated": {**change["end"], "finishedAt": _text(self.now)}}
        if "waiting" in change:
            container["state"] = {"waiting": change["waiting"]}
        if "restarts" in change:
            container["restartCount"] = change["restarts"]
            container["lastState"] = {"terminated": change["last"]}
        if len(container) > 1:
            status["containerStatuses"] = [container]
        if "beside" in change:
            status["containerStatuses"] = [container, change["beside"]]


def job(name: str = "train", /, **replicas: Any) -> JobBuilder:
    """A job: `job(worker=2, ps=1)`, or `job(worker={"replicas": 2, "restartPolicy": "Never"})`."""
    specs = {}
    for role, wanted in replicas.items():
        given = wanted if isinstance(wanted, dict) else {"replicas": wanted}
        specs[str(Role(role))] = {"template": template(), **given}
    return JobBuilder(
        {
            "apiVersion": "dtj.dev/v1alpha1",
            "kind": "DistributedTrainingJob",
            "metadata": {
                "name": name,
                "namespace": "team",
                "uid": UID,
                "generation": 1,
                "creationTimestamp": _text(NOW),
            },
            "spec": {"replicaSpecs": specs, "checkpoint": {"directory": "/checkpoints"}},
        }
    )


def attempts(world: JobBuilder) -> dict[str, str]:
    """Of each pod, by name, as its label says."""
    return {name: pod["metadata"]["labels"]["dtj.dev/attempt"] for name, pod in world.pods.items()}


def worker(policy: str = "OnFailure", replicas: int = 2) -> dict[str, object]:
    """Replicas of a role, all with that restartPolicy."""
    return {"replicas": replicas, "restartPolicy": policy}


def recovered(world: JobBuilder) -> JobBuilder:
    """Run until the incident is over: waits end, new pods become Ready."""
    for _ in range(3):
        world.reap().reconcile().each(ready()).reconcile()
        check = world.decide().plan.requeue_at
        if not world.holds("Restarting") or check is None:
            return world
        world.later((check - world.now).total_seconds())
    return world


def _text(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
