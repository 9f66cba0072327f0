"""The result of a training."""

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


def numbers(found: Mapping[str, Any]) -> dict[str, float]:
    """Return metrics as numbers: the mean of an array; what is not a number is left out."""
    import numpy as np

    arrays = {name: np.asarray(value) for name, value in found.items()}
    return {name: float(each.mean()) for name, each in arrays.items() if np.issubdtype(each.dtype, np.number)}
