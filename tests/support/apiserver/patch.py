"""The patch types: JSON patch (RFC 6902), merge patch (RFC 7386), strategic merge patch."""

from __future__ import annotations

from typing import Any, Final

from tests.support.apiserver.copies import copied
from tests.support.apiserver.errors import Refusal, bad_request

JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"

MERGE_KEYS: Final = {
    "conditions": "type",
    "containers": "name",
    "initContainers": "name",
    "containerStatuses": "name",
    "env": "name",
    "volumes": "name",
    "volumeMounts": "mountPath",
    "ports": "port",
    "ownerReferences": "uid",
    "podIPs": "ip",
    "addresses": "type",
}
"""Lists of the served core kinds that are maps by one key; all others are replaced as a whole."""


def merge(target: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), value)
    return result


def strategic(target: Any, patch: Any, field: str = "") -> Any:
    """A merge patch whose keyed lists are merged by their key; `$patch: delete` removes an item."""
    if isinstance(patch, dict):
        if patch.get("$patch") == "replace":
            return {key: value for key, value in patch.items() if key != "$patch"}
        result = dict(target) if isinstance(target, dict) else {}
        for key, value in patch.items():
            if key.startswith("$"):
                continue
            if value is None:
                result.pop(key, None)
            else:
                result[key] = strategic(result.get(key), value, key)
        return result
    if isinstance(patch, list):
        return _strategic_list(target, patch, field)
    return patch


def _strategic_list(target: Any, patch: list[Any], field: str) -> list[Any]:
    if field == "finalizers":
        return list(dict.fromkeys([*(target or []), *patch]))
    merge_key = MERGE_KEYS.get(field)
    if merge_key is None or not isinstance(target, list):
        return [item for item in patch if not (isinstance(item, dict) and "$patch" in item)]
    result = list(target)
    for item in patch:
        place = next((at for at, old in enumerate(result) if old.get(merge_key) == item.get(merge_key)), None)
        if item.get("$patch") == "delete":
            if place is not None:
                del result[place]
        elif place is None:
            result.append(item)
        else:
            result[place] = strategic(result[place], item)
    return result


def json_patch(target: Any, operations: Any) -> Any:
    """RFC 6902; a failed `test` is answered 422 as the API server does."""
    if not isinstance(operations, list):
        raise bad_request("json patch must be a list of operations")
    document = copied(target)
    for operation in operations:
        document = _operate(document, operation)
    return document


def _operate(document: Any, operation: dict[str, Any]) -> Any:
    verb, path = operation.get("op"), _pointer(operation["path"])
    if verb == "test":
        try:
            seen = _resolve(document, path)
        except Refusal:
            seen = None
        if seen != operation.get("value"):
            raise _rejected(f"testing value {operation['path']} failed")
        return document
    if verb in {"move", "copy"}:
        value = copied(_resolve(document, _pointer(operation["from"])))
        if verb == "move":
            document = _remove(document, _pointer(operation["from"]))
        return _add(document, path, value)
    if verb == "add":
        return _add(document, path, operation.get("value"))
    if verb == "remove":
        return _remove(document, path)
    if verb == "replace":
        _resolve(document, path)
        return _add(_remove(document, path), path, operation.get("value")) if path else operation.get("value")
    raise bad_request(f"unknown operation {verb!r} in a json patch")


def _pointer(text: str) -> list[str]:
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]]


def _rejected(why: str) -> Refusal:
    return Refusal(422, "Invalid", f"the server rejected our request due to an error in our request: {why}")


def _resolve(document: Any, path: list[str]) -> Any:
    for part in path:
        try:
            document = document[int(part)] if isinstance(document, list) else document[part]
        except (KeyError, IndexError, ValueError, TypeError):
            raise _rejected("path does not exist: /" + "/".join(path)) from None
    return document


def _add(document: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    parent = _resolve(document, path[:-1])
    if isinstance(parent, list):
        place = len(parent) if path[-1] == "-" else int(path[-1])
        if place > len(parent):
            raise _rejected("index out of range: /" + "/".join(path))
        parent.insert(place, value)
    elif isinstance(parent, dict):
        parent[path[-1]] = value
    else:
        raise _rejected("path does not exist: /" + "/".join(path))
    return document


def _remove(document: Any, path: list[str]) -> Any:
    _resolve(document, path)
    parent = _resolve(document, path[:-1])
    del parent[int(path[-1]) if isinstance(parent, list) else path[-1]]
    return document
