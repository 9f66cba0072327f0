"""What a checkpoint holds beside variables: the place in the data, and Python's and NumPy's random state."""

import json
import random
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from dtj_trainer.data.sampler import Dealt


@dataclass(frozen=True, slots=True)
class Position:
    """How far a job is. Steps are optimizer updates; examples are counted over all processes since the beginning."""

    step: int = 0
    examples: int = 0
    batches: int = 0
    """Global batches read since the beginning."""
    dealt: tuple[Dealt, ...] = ()
    """The examples again, by how many processes shared the data: a stream's place depends on it."""
    owes_end: bool = False
    """The epoch that ends here is neither validated nor told to callbacks: all were asked to leave before that."""
    sums: Mapping[str, float] = field(default_factory=dict)
    """Sums over the last `summed` examples, of which no mean is told yet."""
    summed: int = 0


def text(position: Position, metrics: Mapping[str, float]) -> str:
    import numpy as np

    kind, keys, place, has_gauss, cached = np.random.get_state()  # noqa: NPY002 - the legacy state is what programs use
    return json.dumps(
        {
            "position": asdict(position),
            "metrics": dict(metrics),
            "python": random.getstate(),
            "numpy": [kind, [int(key) for key in keys], int(place), int(has_gauss), float(cached)],
        }
    )


def restore(value: str) -> tuple[Position, dict[str, float]]:
    """Set the random states that a checkpoint holds, and tell its position and the last epoch's metrics."""
    import numpy as np

    told: dict[str, Any] = json.loads(value)
    version, keys, gauss = told["python"]
    random.setstate((version, tuple(keys), gauss))
    kind, numpy_keys, place, has_gauss, cached = told["numpy"]
    np.random.set_state((kind, np.array(numpy_keys, dtype=np.uint32), place, has_gauss, cached))  # noqa: NPY002 - as above
    place = told["position"]
    position = Position(**{**place, "dealt": tuple(Dealt(**each) for each in place["dealt"])})
    return position, told.get("metrics", {})
