"""From pydantic's JSON schema to a structural schema that the API server accepts.

The API server forbids `$ref`, `anyOf` with types, `const`, `title` and `propertyNames`; it wants
lists to say how they merge. Nothing else is changed, so the models stay the one source.
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
    """A model uses something that a CRD cannot say; the message names the place."""


def structural_schema(model: type[BaseModel]) -> Schema:
    """The structural schema of a model, with its defaults and descriptions."""
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
    """The node with its reference followed and `X | None` reduced to X."""
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
    """Objects default to {}: the server then fills in the defaults of what is inside."""
    return {} if schema["type"] == "object" else value
