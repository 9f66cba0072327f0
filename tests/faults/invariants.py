"""What must hold, whatever happens: compared with the undisturbed run, and checked at every commit."""

from __future__ import annotations

import json
import logging
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tests.support.apiserver import Commit, Happening

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.faults.fault_cluster import World
    from tests.support.apiserver import Object

COMPARED: Final = ("distributedtrainingjobs", "pods", "services")
"""Kinds whose end states must be equal. Events are told once at most, but may be lost in a crash."""
MASKED_METADATA: Final = frozenset({"resourceVersion", "managedFields", "creationTimestamp", "uid"})
MASKED: Final = frozenset({"recoverySeconds"})
TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)")
DURATION: Final = re.compile(r"\b\d+(\.\d+)? ?(s|seconds?)\b")
UID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")

State = dict[str, Any]
"""Masked objects by `kind/name`."""


def end_state(world: World) -> State:
    """Everything that must be equal, with identities and times masked."""
    state: State = {}
    for plural in COMPARED:
        for obj in world.server.list(plural):
            state[f"{plural}/{obj['metadata']['name']}"] = _masked(obj)
    text = json.dumps(state, sort_keys=True)
    job = world.job
    if job is not None:
        text = text.replace(job["metadata"]["uid"], "<uid of the job>")
    text = text.replace(f'"{world.namespace}"', '"<namespace>"').replace(f".{world.namespace}.", ".<namespace>.")
    text = DURATION.sub("<duration>", TIME.sub("<time>", UID.sub("<uid>", text)))
    result: State = json.loads(text)
    return result


def _masked(value: Any, name: str = "") -> Any:
    if isinstance(value, dict):
        hidden = MASKED_METADATA if name == "metadata" else MASKED
        return {key: _masked(item, key) for key, item in value.items() if key not in hidden}
    if isinstance(value, list):
        if name == "conditions":
            value = sorted(value, key=lambda entry: str(entry["type"]))
        return [_masked(item) for item in value]
    return value


def difference(wanted: Any, found: Any, path: str = "") -> list[str]:
    """Where two states differ, one line each."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        lines = []
        for key in sorted(wanted.keys() | found.keys()):
            place = f"{path}.{key}" if path else key
            if key not in found:
                lines.append(f"{place} is missing")
            elif key not in wanted:
                lines.append(f"{place} is {json.dumps(found[key])[:120]}, undisturbed it is absent")
            else:
                lines += difference(wanted[key], found[key], place)
        return lines
    if isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        return [
            line
            for at, pair in enumerate(zip(wanted, found, strict=True))
            for line in difference(*pair, f"{path}[{at}]")
        ]
    if wanted != found:
        return [f"{path} is {json.dumps(found)[:120]}, undisturbed it is {json.dumps(wanted)[:120]}"]
    return []


@dataclass(frozen=True, slots=True)
class _Ahead:
    """A pod that was created at a higher attempt than its job's status was known to tell."""

    name: str
    job: str
    attempt: int
    revision: int

    def follows(self, commit: Commit) -> bool:
        """Whether its job told that attempt before: a real server's watches of two kinds come in any order."""
        job = commit.object
        return job["metadata"]["uid"] == self.job and commit.revision < self.revision and _attempt(job) >= self.attempt


@dataclass(slots=True)
class Watchman:
    """Looks at every commit of one world."""

    world: World
    double_pods: list[str] = field(default_factory=list)
    charges_taken_back: list[str] = field(default_factory=list)
    successes_run_again: list[str] = field(default_factory=list)
    taken_back: list[str] = field(default_factory=list)
    """What is done or has ended was so no more."""
    _ahead: list[_Ahead] = field(default_factory=list)
    _stop: Callable[[], None] = lambda: None
    _done: set[tuple[str, ...]] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Begin to look."""
        self._stop = self.world.server.on_commit(self._look)

    @property
    def complaints(self) -> list[str]:
        """All that was wrong."""
        return self.double_pods + self.charges_taken_back + self.successes_run_again + self.laws_broken

    @property
    def laws_broken(self) -> list[str]:
        """What is never taken back was, or a pod was ahead of its job's status."""
        told = "was created at attempt {} before that stood in status"
        return self.taken_back + [f"{pod.name} {told.format(pod.attempt)}" for pod in self._ahead]

    def _look(self, commit: Commit) -> None:
        if commit.kind.plural == "pods" and commit.happening == Happening.ADDED:
            self._look_at_slot(commit.object)
            self._look_at_attempt(commit)
        if commit.kind.plural == "pods" and commit.object["status"].get("phase") == "Succeeded":
            self._done.add((*_slot(commit.object), _label(commit.object, "job-uid")))
        if commit.kind.plural == "distributedtrainingjobs":
            self._ahead = [pod for pod in self._ahead if not pod.follows(commit)]
        if commit.kind.plural == "distributedtrainingjobs" and commit.happening == Happening.MODIFIED:
            self._look_at_counts(commit.previous or {}, commit.object)
            self._look_at_the_end(commit.previous or {}, commit.object)

    def _look_at_slot(self, pod: Object) -> None:
        slot = _slot(pod)
        others = [
            other
            for other in self.world.server.list("pods")
            if _slot(other) == slot and other["metadata"]["uid"] != pod["metadata"]["uid"]
        ]
        if others:
            names = ", ".join(str(other["metadata"]["name"]) for other in others)
            self.double_pods.append(f"{pod['metadata']['name']} was created while {names} had its slot {slot}")
        if (*slot, _label(pod, "job-uid")) in self._done:
            self.successes_run_again.append(f"{pod['metadata']['name']} was created again after it had succeeded")

    def _look_at_counts(self, old: Object, new: Object) -> None:
        before, after = _counts(old), _counts(new)
        self.charges_taken_back += [
            f"{name} went from {was} to {after[name]}" for name, was in before.items() if after[name] < was
        ]

    def _look_at_attempt(self, commit: Commit) -> None:
        pod = commit.object
        name, uid, attempt = pod["metadata"]["name"], _label(pod, "job-uid"), int(_label(pod, "attempt"))
        job = self.world.server.get("distributedtrainingjobs", pod["metadata"]["namespace"], _label(pod, "job-name"))
        if job is not None and job["metadata"]["uid"] == uid and attempt > _attempt(job):
            self._ahead.append(_Ahead(name, uid, attempt, commit.revision))

    def _look_at_the_end(self, old: Object, new: Object) -> None:
        before, after = old.get("status") or {}, new.get("status") or {}
        name = new["metadata"]["name"]
        for role, indexes in (before.get("completed") or {}).items():
            if not set(indexes) <= set((after.get("completed") or {}).get(role) or ()):
                self.taken_back.append(f"{name}: completed {role} {indexes} became {after.get('completed')}")
        if _end(before) and _end(before) != _end(after):
            self.taken_back.append(f"{name} had ended as {_end(before)}, now it has as {_end(after)}")


def _end(status: Object) -> list[object]:
    """How and when a job ended; empty while it has not."""
    kinds = [one["type"] for one in status.get("conditions") or () if one["status"] == "True"]
    ends: list[object] = [kind for kind in kinds if kind in {"Succeeded", "Failed"}]
    return [*ends, status.get("completionTime")] if ends else []


def _attempt(job: Object) -> int:
    return int((job.get("status") or {}).get("attempt", -1))


def _counts(job: Object) -> dict[str, int]:
    """What may only go up within the life of a job."""
    status = job.get("status") or {}
    restarts = status.get("restarts") or {}
    return {
        "attempt": status.get("attempt") or 0,
        "restarts.total": restarts.get("total") or 0,
        "restarts.charged": restarts.get("charged") or 0,
    }


def _label(pod: Object, name: str) -> str:
    return str((pod["metadata"].get("labels") or {}).get(f"dtj.dev/{name}", ""))


def _slot(pod: Object) -> tuple[str, ...]:
    return (pod["metadata"]["namespace"], *(_label(pod, name) for name in ("job-name", "role", "index")))


class Tracebacks(logging.Handler):
    """Collects the exceptions that the operator logs, by thread: none is ever expected."""

    def __init__(self) -> None:
        """Attach with `logging.getLogger("dtj_operator").addHandler`."""
        super().__init__(logging.ERROR)
        self.found: list[tuple[str, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep it."""
        if record.exc_info:
            error = record.exc_info[1]
            self.found.append((str(record.threadName), f"{record.getMessage()}: {error!r}"))

    def of(self, world: World) -> list[str]:
        """Those of the operators of one world."""
        names = {operator.token for operator in world.operators}
        return [text for name, text in self.found if name in names]
