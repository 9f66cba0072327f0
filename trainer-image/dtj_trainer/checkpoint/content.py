"""What a checkpoint holds beside variables, as JSON: position, metrics, and Python's and NumPy's random state."""

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dtj_trainer.data.position import DataPosition, ReadSpan


@dataclass(frozen=True, slots=True)
class TrainingPosition:
    """The progress of a training. Steps are optimizer updates; data is counted over all processes."""

    step: int = 0
    data: DataPosition = field(default_factory=DataPosition)
    epoch_end_pending: bool = False
    """Whether validation and callbacks of the epoch that ends here are still due, after a preemption."""
    metric_sums: Mapping[str, float] = field(default_factory=dict)
    """Sums over the last `metric_examples` examples, of which no mean is reported yet."""
    metric_examples: int = 0


@dataclass(frozen=True, slots=True)
class EpochLogs:
    """The metrics of an epoch, as in a Keras History."""

    epoch: int
    logs: Mapping[str, Any]
    """Numbers, or lists of them."""


@dataclass(frozen=True, slots=True)
class CheckpointContent:
    """The part of a checkpoint that is not variables."""

    position: TrainingPosition = field(default_factory=TrainingPosition)
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Those of the last epoch before the checkpoint."""
    history: Sequence[EpochLogs] = ()
    """The epochs that have ended."""
    finished: bool = False
    """Whether the training is over: all callbacks have been called."""


def serialize(content: CheckpointContent) -> str:
    """Return the content and the current random states, as a checkpoint stores them."""
    return json.dumps(
        {
            "position": position_to_json(content.position),
            "metrics": dict(content.metrics),
            "history": [{"epoch": each.epoch, "logs": dict(each.logs)} for each in content.history],
            **({"finished": True} if content.finished else {}),
            **_random_state(),
        }
    )


def restore(text: str | bytes) -> CheckpointContent:
    """Set the random states that a checkpoint holds, and return the rest of its content."""
    found: dict[str, Any] = json.loads(text)
    _set_random_state(found)
    history = tuple(EpochLogs(each["epoch"], each["logs"]) for each in found.get("history", []))
    return CheckpointContent(
        position_from_json(found["position"]), found.get("metrics", {}), history, finished=found.get("finished", False)
    )


def position_to_json(position: TrainingPosition) -> dict[str, Any]:
    """Return the position as a JSON object with the keys of checkpoints."""
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
    """Return the position from the JSON object of a checkpoint."""
    read = tuple(ReadSpan(span["workers"], span["examples"]) for span in found["dealt"])
    return TrainingPosition(
        found["step"],
        DataPosition(found["examples"], found["batches"], read),
        epoch_end_pending=found["owes_end"],
        metric_sums=found["sums"],
        metric_examples=found["summed"],
    )


def _random_state() -> dict[str, Any]:
    import numpy as np

    kind, keys, place, has_gauss, cached = np.random.get_state()  # noqa: NPY002 - the legacy state is what programs use
    return {
        "python": random.getstate(),
        "numpy": [kind, [int(key) for key in keys], int(place), int(has_gauss), float(cached)],
    }


def _set_random_state(found: Mapping[str, Any]) -> None:
    import numpy as np

    version, keys, gauss = found["python"]
    random.setstate((version, tuple(keys), gauss))
    kind, numpy_keys, place, has_gauss, cached = found["numpy"]
    np.random.set_state((kind, np.array(numpy_keys, dtype=np.uint32), place, has_gauss, cached))  # noqa: NPY002 - as above


class TrackableContent:
    """The step and the content of a checkpoint, as objects that TensorFlow saves and restores.

    Every process creates it once: creating a variable is a collective under MultiWorkerMirrored.
    """

    def __init__(self) -> None:
        import tensorflow as tf

        self._content = CheckpointContent()
        self._step = tf.Variable(0, dtype=tf.int64, trainable=False, name="step")

    @property
    def content(self) -> CheckpointContent:
        """The content that was last set or restored."""
        return self._content

    @content.setter
    def content(self, content: CheckpointContent) -> None:
        self._content = content
        self._step.assign(content.position.step)

    def objects(self) -> dict[str, object]:
        """Return the objects by their names in a checkpoint."""
        import tensorflow as tf

        held = self

        class State(tf.train.experimental.PythonState):
            def serialize(self) -> str:
                return serialize(held.content)

            def deserialize(self, string_value: str | bytes) -> None:
                held.content = restore(string_value)

        return {"step": self._step, "state": State()}
