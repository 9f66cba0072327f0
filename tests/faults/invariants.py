"""What must hold whatever happens: the end state of the undisturbed run, and no tracebacks in the log."""

from __future__ import annotations

import json
import logging
import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tests.faults.fault_cluster import FaultCluster

COMPARED: Final = ("distributedtrainingjobs", "pods", "services")
"""Kinds whose end states must be equal. Events are posted at most once, but may be lost in a crash."""
MASKED_METADATA: Final = frozenset({"resourceVersion", "managedFields", "creationTimestamp", "uid"})
MASKED: Final = frozenset({"recoverySeconds"})
TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)")
DURATION: Final = re.compile(r"\b\d+(\.\d+)? ?(s|seconds?)\b")
UID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")

State = dict[str, Any]
"""Masked objects by `kind/name`."""


def end_state(cluster: FaultCluster) -> State:
    """Return everything that must be equal, with identities and times masked."""
    state: State = {}
    for plural in COMPARED:
        for obj in cluster.server.list(plural):
            state[f"{plural}/{obj['metadata']['name']}"] = _masked(obj)
    text = json.dumps(state, sort_keys=True)
    job = cluster.job
    if job is not None:
        text = text.replace(job["metadata"]["uid"], "<uid of the job>")
    text = text.replace(f'"{cluster.namespace}"', '"<namespace>"').replace(f".{cluster.namespace}.", ".<namespace>.")
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
    """Return one line for each place where two states differ."""
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


class Tracebacks(logging.Handler):
    """A logging handler that collects the exceptions the operator logs, by thread: none is ever expected."""

    def __init__(self) -> None:
        """Attach with `logging.getLogger("dtj_operator").addHandler`."""
        super().__init__(logging.ERROR)
        self.found: list[tuple[str, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep it."""
        if record.exc_info:
            error = record.exc_info[1]
            self.found.append((str(record.threadName), f"{record.getMessage()}: {error!r}"))

    def of(self, cluster: FaultCluster) -> list[str]:
        """Return those of the operators of one cluster."""
        names = {operator.token for operator in cluster.operators}
        return [text for name, text in self.found if name in names]
