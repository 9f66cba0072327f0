"""Server-side apply: who owns which field.

A field is a path of keys; the items of keyed lists (`containers`, `conditions` and so on) are keyed
by their merge key, all other lists are one field. Ownership is kept in metadata.managedFields in the
real format (fieldsV1), so clients that read it see what they expect.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from tests.support.apiserver.copies import copied
from tests.support.apiserver.errors import Refusal
from tests.support.apiserver.patch import MERGE_KEYS

if TYPE_CHECKING:
    from tests.support.apiserver.kinds import Kind, Object

Path = tuple[str, ...]
"""Steps as in fieldsV1: `f:name` for a key, `k:{...}` for an item of a keyed list."""

UNOWNED: Final = frozenset({"apiVersion", "kind"})
UNOWNED_METADATA: Final = frozenset(
    {
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "managedFields",
        "selfLink",
    }
)


def fields_of(obj: Object) -> frozenset[Path]:
    """The leaves that this object sets."""
    found: set[Path] = set()
    for name, value in obj.items():
        if name in UNOWNED:
            continue
        if name == "metadata":
            value = {key: item for key, item in value.items() if key not in UNOWNED_METADATA}  # noqa: PLW2901
        _collect(value, name, (f"f:{name}",), found)
    return frozenset(found)


def _collect(value: Any, name: str, path: Path, found: set[Path]) -> None:
    key = MERGE_KEYS.get(name)
    if isinstance(value, dict) and value:
        for field, item in value.items():
            _collect(item, field, (*path, f"f:{field}"), found)
    elif isinstance(value, list) and value and key and all(isinstance(item, dict) and key in item for item in value):
        for item in value:
            step = "k:" + json.dumps({key: item[key]}, separators=(",", ":"))
            for field, inner in item.items():
                _collect(inner, field, (*path, step, f"f:{field}"), found)
    elif not isinstance(value, dict) or len(path) > 2:
        found.add(path)


def applied(kind: Kind, old: Object, wanted: Object, manager: str, *, force: bool) -> Object:
    """`old` with the fields of `wanted` set, and those that `manager` no longer applies removed."""
    mine, theirs = frozenset[Path](), dict[Path, str]()
    for entry in old["metadata"].get("managedFields") or []:
        owned = _from_wire(entry.get("fieldsV1") or {})
        if entry.get("manager") == manager and entry.get("operation") == "Apply":
            mine |= owned
        else:
            theirs.update(dict.fromkeys(owned, entry.get("manager", "")))
    fields = fields_of(wanted)
    clashes = [
        (theirs[path], path) for path in sorted(fields) if path in theirs and _value(old, path) != _value(wanted, path)
    ]
    if clashes and not force:
        said = "; ".join(
            f'conflict with "{who}": {"".join(step.replace("f:", ".", 1) for step in path)}' for who, path in clashes
        )
        raise Refusal(
            409, "Conflict", f"Apply failed with {len(clashes)} conflict(s): {said}", details={"kind": kind.plural}
        )
    result = copied(old)
    for path in sorted(mine - fields):
        if path not in theirs:
            _drop(result, path)
    _overlay(result, {key: value for key, value in wanted.items() if key not in UNOWNED}, "")
    return result


def _overlay(target: Object, wanted: Object, _name: str) -> None:
    for name, value in wanted.items():
        key = MERGE_KEYS.get(name)
        if isinstance(value, dict) and isinstance(target.get(name), dict):
            _overlay(target[name], value, name)
        elif isinstance(value, list) and key and isinstance(target.get(name), list):
            for item in value:
                place = next((at for at, old in enumerate(target[name]) if old.get(key) == item.get(key)), None)
                if place is None:
                    target[name].append(copied(item))
                else:
                    _overlay(target[name][place], item, name)
        else:
            target[name] = copied(value)


def _step(value: Any, step: str) -> Any:
    if step.startswith("f:") and isinstance(value, dict):
        return value.get(step[2:])
    if step.startswith("k:") and isinstance(value, list):
        keys = json.loads(step[2:])
        return next((item for item in value if all(item.get(key) == wanted for key, wanted in keys.items())), None)
    return None


def _value(obj: Object, path: Path) -> Any:
    value: Any = obj
    for step in path:
        value = _step(value, step)
    return value


def _drop(obj: Object, path: Path) -> None:
    """Remove one leaf, and what is left empty above it."""
    parents: list[Any] = [obj]
    for step in path[:-1]:
        parents.append(_step(parents[-1], step))
        if parents[-1] is None:
            return
    if isinstance(parents[-1], dict):
        parents[-1].pop(path[-1][2:], None)
    for depth in range(len(path) - 1, 0, -1):
        child, parent, step = parents[depth], parents[depth - 1], path[depth - 1]
        if step.startswith("k:") and isinstance(parent, list):
            if set(child) <= set(json.loads(step[2:])):
                parent.remove(child)
        elif not child and isinstance(parent, dict):
            parent.pop(step[2:], None)


def record_apply(obj: Object, fields: frozenset[Path], manager: str, moment: str) -> Object:
    """The object with `manager` noted as the applier of `fields`; others lose what it took."""
    kept = []
    for entry in obj["metadata"].get("managedFields") or []:
        if entry.get("manager") == manager and entry.get("operation") == "Apply":
            if _from_wire(entry["fieldsV1"]) == fields:
                moment = entry["time"]
            continue
        owned = _from_wire(entry.get("fieldsV1") or {})
        left = owned if not manager else owned - (fields if entry.get("operation") == "Update" else frozenset())
        if left:
            kept.append({**entry, "fieldsV1": _to_wire(left)})
    entry = _entry(obj, manager, "Apply", moment, fields)
    return {**obj, "metadata": {**obj["metadata"], "managedFields": [*kept, entry]}}


def record_update(old: Object | None, new: Object, manager: str, moment: str) -> Object:
    """The object with `manager` noted as the last writer of what changed; no manager, no note."""
    if not manager:
        return new
    before = fields_of(old) if old else frozenset[Path]()
    after = fields_of(new)
    changed = frozenset(
        path for path in after if old is None or path not in before or _value(old, path) != _value(new, path)
    )
    entries = []
    mine = changed
    for entry in new["metadata"].get("managedFields") or []:
        owned = _from_wire(entry.get("fieldsV1") or {}) & after
        if entry.get("manager") == manager and entry.get("operation") == "Update":
            mine |= owned
        elif owned - changed:
            entries.append({**entry, "fieldsV1": _to_wire(owned - changed)})
    if mine:
        entries.append(_entry(new, manager, "Update", moment, mine))
    return {**new, "metadata": {**new["metadata"], "managedFields": entries}}


def _entry(obj: Object, manager: str, operation: str, moment: str, fields: frozenset[Path]) -> Object:
    return {
        "manager": manager,
        "operation": operation,
        "apiVersion": obj["apiVersion"],
        "time": moment,
        "fieldsType": "FieldsV1",
        "fieldsV1": _to_wire(fields),
    }


def _to_wire(fields: frozenset[Path]) -> Object:
    tree: Object = {}
    for path in sorted(fields):
        node = tree
        for step in path:
            node = node.setdefault(step, {})
    return tree


def _from_wire(tree: Object, path: Path = ()) -> frozenset[Path]:
    if not tree and path:
        return frozenset({path})
    found: frozenset[Path] = frozenset()
    for step, inner in tree.items():
        found |= _from_wire(inner, (*path, step))
    return found


def without_times(obj: Object) -> Object:
    """The object without what says only when it was written: equal ones need no new revision."""
    metadata = {
        name: value for name, value in obj["metadata"].items() if name not in {"managedFields", "resourceVersion"}
    }
    owners = [{**entry, "time": ""} for entry in obj["metadata"].get("managedFields") or []]
    return {**obj, "metadata": {**metadata, "managedFields": owners}}
