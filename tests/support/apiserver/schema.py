"""Custom kinds: pruning, defaulting and validation by the structural schema of their CRD.

Order as in the real server: prune unknown fields, fill in defaults, validate by the schema, then by
the CEL rules (`rules.py`), where a transition rule (one that mentions oldSelf) needs an old value.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tests.support.apiserver.copies import copied
from tests.support.apiserver.errors import bad_request, invalid
from tests.support.apiserver.rules import ValidationRules

if TYPE_CHECKING:
    from tests.support.apiserver.kinds import Kind, Object

Cause = tuple[str, str]

TYPES: Final[dict[str, tuple[type, ...]]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
}


@dataclass(frozen=True, slots=True)
class CustomSchema:
    """The schema of one version of a custom kind."""

    root: Object
    rules: ValidationRules

    @classmethod
    def of(cls, crd: Object, version: str) -> CustomSchema:
        """The schema of `version` in a CustomResourceDefinition."""
        found = next(entry for entry in crd["spec"]["versions"] if entry["name"] == version)
        root = found["schema"]["openAPIV3Schema"]
        return cls(root, ValidationRules.of(root))

    def admit(self, kind: Kind, new: Object, old: Object | None, *, strict: bool = False) -> Object:
        """The object as it is stored; raises 400 for unknown fields if strict, 422 for invalid ones."""
        unknown: list[str] = []
        own: Object = copied(new)
        obj = {name: value for name, value in own.items() if name in {"apiVersion", "kind", "metadata"}}
        beside = {name: value for name, value in self.root.get("properties", {}).items() if name not in obj}
        body = {name: value for name, value in own.items() if name not in obj}
        top = {**self.root, "properties": beside}
        _prune(body, top, "", unknown)
        if unknown and strict:
            fields = ", ".join(f'unknown field "{field}"' for field in unknown)
            raise bad_request(
                f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: '
                f"strict decoding error: {fields}"
            )
        _default(body, top)
        obj |= body
        causes: list[Cause] = []
        _validate(obj, self.root, "", causes)
        if not causes:
            causes = list(self.rules.broken(obj, old))
        if causes:
            raise invalid(kind, new["metadata"]["name"], causes)
        return obj


def _keeps_unknown(schema: Object) -> bool:
    return bool(schema.get("x-kubernetes-preserve-unknown-fields"))


def _prune(value: Any, schema: Object, path: str, unknown: list[str]) -> None:
    if isinstance(value, dict):
        properties, additional = schema.get("properties", {}), schema.get("additionalProperties")
        for name in list(value):
            inner = f"{path}.{name}".lstrip(".")
            if name in properties:
                _prune(value[name], properties[name], inner, unknown)
            elif isinstance(additional, dict):
                _prune(value[name], additional, inner, unknown)
            elif not additional and not _keeps_unknown(schema):
                del value[name]
                unknown.append(inner)
    elif isinstance(value, list) and isinstance(schema.get("items"), dict):
        for at, item in enumerate(value):
            _prune(item, schema["items"], f"{path}[{at}]", unknown)


def _default(value: Any, schema: Object) -> None:
    if isinstance(value, dict):
        for name, inner in schema.get("properties", {}).items():
            if "default" in inner and (name not in value or (value[name] is None and not inner.get("nullable"))):
                value[name] = copied(inner["default"])
            elif name in value and value[name] is None and not inner.get("nullable") and "type" in inner:
                del value[name]
            if name in value:
                _default(value[name], inner)
        additional = schema.get("additionalProperties")
        if isinstance(additional, dict):
            for name in value:
                if name not in schema.get("properties", {}):
                    _default(value[name], additional)
    elif isinstance(value, list) and isinstance(schema.get("items"), dict):
        for item in value:
            _default(item, schema["items"])


def _validate(value: Any, schema: Object, path: str, causes: list[Cause]) -> None:
    if value is None and schema.get("nullable"):
        return
    if not _typed(value, schema):
        causes.append(
            (path, f'Invalid value: "{_type_name(value)}": {path} in body must be of type {schema.get("type")}')
        )
        return
    if "enum" in schema and value not in schema["enum"]:
        supported = ", ".join(f'"{word}"' for word in schema["enum"])
        causes.append((path, f'Unsupported value: "{value}": supported values: {supported}'))
    if isinstance(value, str):
        _validate_string(value, schema, path, causes)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        _validate_number(value, schema, path, causes)
    elif isinstance(value, list):
        _validate_list(value, schema, path, causes)
    elif isinstance(value, dict):
        _validate_object(value, schema, path, causes)


def _typed(value: Any, schema: Object) -> bool:
    if schema.get("x-kubernetes-int-or-string"):
        return isinstance(value, (int, str)) and not isinstance(value, bool)
    wanted = schema.get("type")
    if not wanted:
        return True
    if isinstance(value, bool):
        return bool(wanted == "boolean")
    if wanted == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, TYPES[wanted])


def _type_name(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    return next((name for name, types in TYPES.items() if isinstance(value, types)), "null")


def _validate_string(value: str, schema: Object, path: str, causes: list[Cause]) -> None:
    if "pattern" in schema and not re.search(schema["pattern"], value):
        causes.append((path, f"Invalid value: \"{value}\": {path} in body should match '{schema['pattern']}'"))
    if len(value) > schema.get("maxLength", len(value)):
        causes.append((path, f"Too long: may not be more than {schema['maxLength']} bytes"))
    if len(value) < schema.get("minLength", 0):
        causes.append(
            (path, f'Invalid value: "{value}": {path} in body should be at least {schema["minLength"]} chars long')
        )


def _validate_number(value: float, schema: Object, path: str, causes: list[Cause]) -> None:
    if value < schema.get("minimum", value):
        causes.append(
            (path, f"Invalid value: {value}: {path} in body should be greater than or equal to {schema['minimum']}")
        )
    if value > schema.get("maximum", value):
        causes.append(
            (path, f"Invalid value: {value}: {path} in body should be less than or equal to {schema['maximum']}")
        )
    if schema.get("exclusiveMinimum") and value == schema.get("minimum"):
        causes.append((path, f"Invalid value: {value}: {path} in body should be greater than {schema['minimum']}"))


def _validate_list(value: list[Any], schema: Object, path: str, causes: list[Cause]) -> None:
    if len(value) > schema.get("maxItems", len(value)):
        causes.append((path, f"Too many: {len(value)}: must have at most {schema['maxItems']} items"))
    if len(value) < schema.get("minItems", 0):
        causes.append(
            (path, f"Invalid value: {len(value)}: {path} in body should have at least {schema['minItems']} items")
        )
    keys = schema.get("x-kubernetes-list-map-keys")
    seen: set[tuple[str, ...]] = set()
    for at, item in enumerate(value):
        if isinstance(schema.get("items"), dict):
            _validate(item, schema["items"], f"{path}[{at}]", causes)
        if schema.get("x-kubernetes-list-type") in {"map", "set"}:
            identity = tuple(str(item.get(key)) for key in keys) if keys and isinstance(item, dict) else (str(item),)
            if identity in seen:
                causes.append((f"{path}[{at}]", f"Duplicate value: {identity}"))
            seen.add(identity)


def _validate_object(value: Object, schema: Object, path: str, causes: list[Cause]) -> None:
    properties, additional = schema.get("properties", {}), schema.get("additionalProperties")
    causes.extend(
        (f"{path}.{name}".lstrip("."), "Required value") for name in schema.get("required", []) if name not in value
    )
    if len(value) > schema.get("maxProperties", len(value)):
        causes.append((path, f"Too many: {len(value)}: must have at most {schema['maxProperties']} items"))
    if len(value) < schema.get("minProperties", 0):
        causes.append(
            (
                path,
                f"Invalid value: {len(value)}: {path} in body needs {schema['minProperties']} properties",
            )
        )
    for name, inner in value.items():
        if name in properties:
            _validate(inner, properties[name], f"{path}.{name}".lstrip("."), causes)
        elif isinstance(additional, dict):
            _validate(inner, additional, f"{path}.{name}".lstrip("."), causes)
