"""What a training hands back."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Result:
    """The end of a training. `metrics` are means over the last epoch; `resumed_from` is a step, or None."""

    step: int
    metrics: Mapping[str, float]
    strategy: str
    resumed_from: int | None
    model: Any = None
