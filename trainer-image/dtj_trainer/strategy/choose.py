"""Chooses the strategy of a job, with the reason. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dtj_trainer.cluster.environment import Environment
from dtj_trainer.errors import PreflightFailed

TYPES = ("OneDevice", "Mirrored", "MultiWorkerMirrored", "ParameterServer", "CentralStorage", "TPU", "None")

FAMILIES = {
    "OneDevice": "synchronous",
    "Mirrored": "synchronous",
    "MultiWorkerMirrored": "synchronous",
    "CentralStorage": "synchronous",
    "TPU": "synchronous",
    "ParameterServer": "ParameterServer",
}
"""Strategies between which a checkpoint may travel."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The type of a strategy, the reason for it, and its options (the keys of spec.strategy)."""

    type: str
    reason: str
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def family(self) -> str:
        return FAMILIES.get(self.type, self.type)


def choose(environment: Environment, devices: int) -> Choice:
    """Return the strategy of this process; `devices` are its accelerators, or its logical CPUs if there are none.

    The operator's choice is used if there is one. Otherwise roles and devices decide, by the same rules.
    """
    requested = str(environment.strategy.get("type") or "Auto")
    if environment.role == "evaluator":
        return Choice("OneDevice", "an evaluator works alone")
    if requested not in {"Auto", *TYPES}:
        raise PreflightFailed(f"strategy {requested!r} is unknown; use one of Auto, {', '.join(TYPES)}")
    if requested != "Auto":
        return Choice(requested, "as the job says", environment.strategy)
    if environment.members("ps"):
        return Choice("ParameterServer", "the cluster has parameter servers", environment.strategy)
    if environment.trainers > 1:
        return Choice("MultiWorkerMirrored", f"{environment.trainers} processes train", environment.strategy)
    if devices > 1:
        return Choice("Mirrored", f"one process with {devices} devices", environment.strategy)
    return Choice("OneDevice", "one process with one device", environment.strategy)
