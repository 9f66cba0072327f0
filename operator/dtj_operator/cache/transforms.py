"""Slim Pod and Service values from JSON: what `decide` reads of them.

Which pod this is follows from its name and its owner, and its attempt from the environment of its main container, which
nobody can change. Labels belong to the tenant.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from sys import intern
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from dtj_operator.api.constants import (
    SERVER_MESSAGE_MAX,
    TERMINATION_MESSAGE_MAX,
)
from dtj_operator.api.enums import Role
from dtj_operator.api.trainer_contract import Environment
from dtj_operator.api.wire_model import parse_time
from dtj_operator.reconcile.state.snapshot import TERMINAL, Container, Pod, Service, Terminated
from dtj_operator.reconcile.state.trainer_messages import parse_count

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

NOBODY: Mapping[str, Any] = MappingProxyType({})
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
UNREADABLE = -1
"""Index of a pod that does not have the name of a replica, and attempt of one that the operator has not made."""
MAX_DIGITS = 16
"""More than an attempt has; Python refuses to read numbers of thousands of digits."""
REPLICA = re.compile(rf"-({'|'.join(Role)})-(0|[1-9][0-9]{{0,8}})")
"""The end of a pod's name, after that of its job."""


def pod_from_json(raw: Mapping[str, Any]) -> Pod:
    """Return a pod as `decide` reads it. Never raises for an object that the API server stores.

    Thousands of these are kept in memory, so strings that many pods share are interned.
    """
    meta, spec, status = raw["metadata"], raw.get("spec") or {}, raw.get("status") or {}
    owner = controller_reference(meta)
    owner_uid = intern(str(owner.get("uid", "")))
    role, index = _replica(meta["name"], str(owner.get("name", "")))
    conditions = {c.get("type"): c for c in status.get("conditions") or ()}
    ready = conditions.get("Ready") or {}
    scheduled = conditions.get("PodScheduled") or {}
    disruption = conditions.get("DisruptionTarget") or {}
    stuck = scheduled.get("status") == "False" and scheduled.get("reason") == "Unschedulable"
    containers = tuple(_containers(meta, spec, status))
    return Pod(
        name=meta["name"],
        uid=meta.get("uid", ""),
        resource_version=str(meta.get("resourceVersion", "")),
        owner_uid=owner_uid,
        role=intern(role),
        index=index,
        attempt=_attempt(spec, owner_uid),
        created_at=parse_time(meta.get("creationTimestamp")) or _EPOCH,
        deleted_at=parse_time(meta.get("deletionTimestamp")),
        phase=intern(_phase(spec, status, containers)),
        over=status.get("phase") in TERMINAL,
        finalizers=bool(meta.get("finalizers")),
        reason=status.get("reason") or "",
        message=(status.get("message") or "")[:SERVER_MESSAGE_MAX],
        ready=ready.get("status") == "True",
        node=intern(spec.get("nodeName") or ""),
        ip=status.get("podIP") or "",
        host_network=bool(spec.get("hostNetwork")),
        unschedulable=(scheduled.get("message") or "no node fits")[:SERVER_MESSAGE_MAX] if stuck else "",
        disruption=_reason_of(disruption) if disruption.get("status") == "True" else "",
        taken_away_at=_taken_away_at(meta, disruption),
        not_ready_reason=(ready.get("reason") or "") if ready.get("status") == "False" else "",
        not_ready_since=parse_time(ready.get("lastTransitionTime")) if ready.get("status") == "False" else None,
        containers=containers,
    )


def service_from_json(raw: Mapping[str, Any]) -> Service:
    """Return a service as `decide` reads it."""
    meta = raw["metadata"]
    return Service(
        name=meta["name"],
        uid=meta.get("uid", ""),
        owner_uid=str(controller_reference(meta).get("uid", "")),
        deleted_at=parse_time(meta.get("deletionTimestamp")),
    )


def controller_reference(metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the owner reference of an object's controller; empty where it has none."""
    for reference in metadata.get("ownerReferences") or ():
        if reference.get("controller"):
            return dict(reference)
    return NOBODY


def _replica(name: str, job: str) -> tuple[str, int]:
    """Return role and index of the replica that has this name in the job."""
    found = REPLICA.fullmatch(name, len(job)) if name.startswith(job) else None
    return (found[1], int(found[2])) if found else ("", UNREADABLE)


def _attempt(spec: Mapping[str, Any], owner_uid: str) -> int:
    """Return the attempt that the operator wrote into the environment of the main container.

    That is the container which also has the UID of the job: the operator sets both.
    """
    for container in spec.get("containers") or ():
        values = {entry.get("name"): entry.get("value") for entry in container.get("env") or ()}
        if owner_uid and values.get(Environment.UID) == owner_uid:
            return _number(values.get(Environment.ATTEMPT))
    return UNREADABLE


def _taken_away_at(meta: Mapping[str, Any], disruption: Mapping[str, Any]) -> datetime | None:
    """Return when a pod's disruption or deletion began. A deletionTimestamp lies its grace period ahead of that."""
    known = []
    if disruption.get("status") == "True":
        known.append(parse_time(disruption.get("lastTransitionTime")))
    if deleted := parse_time(meta.get("deletionTimestamp")):
        known.append(deleted - timedelta(seconds=int(meta.get("deletionGracePeriodSeconds") or 0)))
    return min((at for at in known if at), default=None)


def _phase(spec: Mapping[str, Any], status: Mapping[str, Any], containers: Iterable[Container]) -> str:
    """Return the pod's phase; terminal as soon as all its containers have terminated and will not be restarted.

    A kubelet first reports that the last container has terminated, and only in a later update that the pod does not
    run any more [seen on kubelet 1.35].
    """
    phase = str(status.get("phase") or "Pending")
    if phase != "Running" or spec.get("restartPolicy") != "Never":
        return phase
    ends = [one.terminated for one in containers if not one.init]
    if not ends or None in ends or any(one.get("restartPolicy") == "Always" for one in spec.get("containers") or ()):
        return phase
    return "Failed" if any(end.exit_code for end in ends if end) else "Succeeded"


def _containers(meta: Mapping[str, Any], spec: Mapping[str, Any], status: Mapping[str, Any]) -> Iterator[Container]:
    goes_on = status.get("phase") == "Running" and not meta.get("deletionTimestamp")
    own = {one["name"]: one for one in spec.get("containers") or () if goes_on and one.get("restartPolicy")}
    for raw in status.get("initContainerStatuses") or ():
        yield _container(raw, {}, init=True)
    for raw in status.get("containerStatuses") or ():
        yield _container(raw, own.get(raw.get("name"), {}), init=False)


def _container(raw: Mapping[str, Any], own: Mapping[str, Any], *, init: bool) -> Container:
    """Return one container. `own` is its part of the pod template, if that has its own restartPolicy."""
    state = raw.get("state") or {}
    waiting = state.get("waiting") or {}
    end, last = _terminated(state.get("terminated")), _terminated((raw.get("lastState") or {}).get("terminated"))
    if end and end.exit_code and _restarts(own, end.exit_code):
        end, last = None, end
    return Container(
        name=intern(raw.get("name", "")),
        init=init,
        restart_count=int(raw.get("restartCount") or 0),
        waiting_reason=waiting.get("reason") or "",
        waiting_message=(waiting.get("message") or "")[:SERVER_MESSAGE_MAX],
        terminated=end,
        last_terminated=last,
    )


def _restarts(own: Mapping[str, Any], exit_code: int) -> bool:
    """Tell whether the kubelet restarts a failed container for its own restartPolicy, whatever that of its pod is
    (KEP-5307). Until it runs again, the kubelet reports it as terminated.
    """
    for rule in own.get("restartPolicyRules") or ():
        codes = rule.get("exitCodes") or {}
        if (exit_code in (codes.get("values") or ())) is (codes.get("operator") == "In"):
            return True
    policy = own.get("restartPolicy")
    return policy in {"Always", "OnFailure"}


def _terminated(raw: Mapping[str, Any] | None) -> Terminated | None:
    if not raw:
        return None
    return Terminated(
        exit_code=int(raw.get("exitCode") or 0),
        reason=raw.get("reason") or "",
        message=(raw.get("message") or "")[:TERMINATION_MESSAGE_MAX],
        finished_at=parse_time(raw.get("finishedAt")),
    )


def _reason_of(condition: Mapping[str, Any]) -> str:
    return condition.get("reason") or "Unknown"


def _number(text: str | None) -> int:
    digits = text and len(text) <= MAX_DIGITS and text.isascii() and text.isdigit()
    number = parse_count(int(text)) if text and digits else None
    return UNREADABLE if number is None else number
