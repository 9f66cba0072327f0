"""What a checkpoint holds beside variables: the place in the data, and Python's and NumPy's random state."""

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dtj_trainer.data.position import DataPosition, ReadSpan


@dataclass(frozen=True, slots=True)
class TrainingPosition:
    """How far a training is. Steps are optimizer updates; data is counted over all processes since the beginning."""

    step: int = 0
    data: DataPosition = field(default_factory=DataPosition)
    epoch_end_pending: bool = False
    """The epoch that ends here is neither validated nor told to callbacks: all were asked to leave before that."""
    metric_sums: Mapping[str, float] = field(default_factory=dict)
    """Sums over the last `metric_examples` examples, of which no mean is reported yet."""
    metric_examples: int = 0


def position_to_json(position: TrainingPosition) -> dict[str, Any]:
    """The position under the keys that checkpoints have."""
    return {
        "step": position.step,
        "examples": position.data.examples,
        "batches": position.data.batches,
        "dealt": [{"workers": span.workers, "examples": span.examples} for span in position.data.read],
        "owes_end": position.epoch_end_pending,
        "sums": dict(position.metric_sums),
        "summed": position.metric_examples,
    }


def position_from_json(found: Mapping[str, Any]) -> TrainingPosition:
    """The position of a checkpoint."""
    read = tuple(ReadSpan(span["workers"], span["examples"]) for span in found["dealt"])
    return TrainingPosition(
        found["step"],
        DataPosition(found["examples"], found["batches"], read),
        epoch_end_pending=found["owes_end"],
        metric_sums=found["sums"],
        metric_examples=found["summed"],
    )


def text(position: TrainingPosition, metrics: Mapping[str, float]) -> str:
    import numpy as np

    kind, keys, place, has_gauss, cached = np.random.get_state()  # noqa: NPY002 - the legacy state is what programs use
    return json.dumps(
        {
            "position": position_to_json(position),
            "metrics": dict(metrics),
            "python": random.getstate(),
            "numpy": [kind, [int(key) for key in keys], int(place), int(has_gauss), float(cached)],
        }
    )


def restore(value: str) -> tuple[TrainingPosition, dict[str, float]]:
    """Set the random states that a checkpoint holds, and tell its position and the last epoch's metrics."""
    import numpy as np

    told: dict[str, Any] = json.loads(value)
    version, keys, gauss = told["python"]
    random.setstate((version, tuple(keys), gauss))
    kind, numpy_keys, place, has_gauss, cached = told["numpy"]
    np.random.set_state((kind, np.array(numpy_keys, dtype=np.uint32), place, has_gauss, cached))  # noqa: NPY002 - as above
    return position_from_json(told["position"]), told.get("metrics", {})
