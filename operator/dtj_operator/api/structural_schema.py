"""The conversion of the JSON schema of a pydantic model into a structural schema, as the API server requires it.

The API server forbids `$ref`, `anyOf` with types, `const`, `title` and `propertyNames`, and lists
have to say how they merge. Nothing else is changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import BaseModel

Schema = dict[str, Any]

KEPT = (
    "description",
    "type",
    "format",
    "enum",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "pattern",
)


class NotStructural(TypeError):
    """A model uses a type that a CRD cannot express; the message names the field."""


def structural_schema(model: type[BaseModel]) -> Schema:
    """Return the structural schema of a model, with its defaults and descriptions."""
    raw = model.model_json_schema(by_alias=True, mode="validation")
    return _convert(raw, raw.get("$defs", {}), model.__name__)


def _convert(node: Schema, definitions: dict[str, Schema], path: str) -> Schema:
    node = _resolved(node, definitions, path)
    schema: Schema = {key: node[key] for key in KEPT if key in node}
    if "properties" in node:
        schema["properties"] = {
            name: _convert(child, definitions, f"{path}.{name}") for name, child in node["properties"].items()
        }
    if "required" in node:
        schema["required"] = sorted(node["required"])
    if schema.get("type") == "array":
        schema["items"] = _convert(node["items"], definitions, f"{path}[]")
        schema["x-kubernetes-list-type"] = "atomic"
    elif isinstance(node.get("additionalProperties"), dict):
        schema["additionalProperties"] = _convert(node["additionalProperties"], definitions, f"{path}{{}}")
    elif schema.get("type") == "object" and "properties" not in schema:
        schema["x-kubernetes-preserve-unknown-fields"] = True
    if schema.get("type") == "integer":
        schema["format"] = "int64"
    if node.get("default") is not None:
        schema["default"] = _default(schema, node["default"])
    if "type" not in schema:
        raise NotStructural(f"{path}: has no type that a CRD can express")
    return schema


def _resolved(node: Schema, definitions: dict[str, Schema], path: str) -> Schema:
    """Follow a reference, and reduce `X | None` to X."""
    if "anyOf" in node:
        choices = [one for one in node["anyOf"] if one.get("type") != "null"]
        if len(choices) != 1:
            raise NotStructural(f"{path}: a CRD field has exactly one type")
        rest = {key: value for key, value in node.items() if key not in {"anyOf", "default"}}
        return _resolved(choices[0] | rest, definitions, path)
    if "$ref" in node:
        target = definitions[node["$ref"].rpartition("/")[2]]
        rest = {key: value for key, value in node.items() if key != "$ref"}
        return _resolved(target | rest, definitions, path)
    if "const" in node:
        return node | {"enum": [node["const"]]}
    return node


def _default(schema: Schema, value: Any) -> Any:
    """Return {} for objects: the API server then sets the defaults of their fields."""
    return {} if schema["type"] == "object" else value
