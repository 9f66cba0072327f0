"""The fields of a stored status that this version does not know: each write keeps them.

A later version may have written them, and may be back soon.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args, get_origin

from pydantic import BaseModel

from dtj_operator.api.persisted_state import (
    CountedRecoveries,
    EvaluatorRestart,
    NodeRejections,
    OpenIncident,
    RepeatedEnds,
    ReplicaGroup,
    RootCause,
)
from dtj_operator.api.status import Condition, LastIncident, LastRecovery, StrategyChoice

if TYPE_CHECKING:
    from collections.abc import Mapping

IDENTITY: dict[type[BaseModel], tuple[str, ...]] = {
    Condition: ("type",),
    CountedRecoveries: ("uid",),
    EvaluatorRestart: ("index", "uid"),
    LastIncident: ("time",),
    LastRecovery: ("time",),
    NodeRejections: ("node", "count"),
    OpenIncident: ("openedAt",),
    RepeatedEnds: ("ends",),
    ReplicaGroup: ("attempt",),
    RootCause: ("role", "index", "at"),
    StrategyChoice: ("type",),
}
"""The fields that tell whether an object is still about the same thing. If not, nothing of the former one is kept."""


def keep_unknown_fields(model: type[BaseModel], before: Mapping[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """Return `after`, with the fields of `before` that the model does not know. Both are JSON of the model."""
    if _identity(model, before) != _identity(model, after):
        return after
    kinds = {field.alias or name: field.annotation for name, field in model.model_fields.items()}
    kept = {name: value for name, value in before.items() if name not in kinds}
    known = {
        name: _keep(kinds[name], before[name], value) if name in before else value for name, value in after.items()
    }
    return known | kept


def _keep(kind: Any, before: Any, after: Any) -> Any:
    """Return `after`, a value of a field of this type, with what is not known of the values in it."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        both = isinstance(before, dict) and isinstance(after, dict)
        return keep_unknown_fields(kind, before, after) if both else after
    inner = [one for one in get_args(kind) if one not in {type(None), Ellipsis}]
    if get_origin(kind) is dict and isinstance(before, dict):
        return {name: _keep(inner[-1], before.get(name), value) for name, value in after.items()}
    if get_origin(kind) is tuple and inner[0] in IDENTITY and isinstance(before, list):
        known = {_identity(inner[0], one): one for one in before if isinstance(one, dict)}
        return [_keep(inner[0], known.get(_identity(inner[0], one)), one) for one in after]
    return _keep(inner[0], before, after) if len(inner) == 1 and get_origin(kind) not in {dict, tuple} else after


def _identity(model: type[BaseModel], value: Mapping[str, Any]) -> str:
    return str([value.get(name) for name in IDENTITY.get(model, ())])
