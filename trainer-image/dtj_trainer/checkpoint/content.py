"""What a checkpoint holds beside variables: position, metrics, history, random states, and the state of callbacks."""

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dtj_trainer.checkpoint import callback_state
from dtj_trainer.checkpoint.callback_state import CallbackState
from dtj_trainer.checkpoint.random_state import RANDOM_STATES, random_state, set_random_state
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
    iterator_state: bytes | None = None
    """The state of the iterator of a tf.data.Dataset, where TensorFlow can save it."""


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
    callbacks: Sequence[CallbackState] = ()
    random: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """The random states of the restored checkpoint."""


def serialize(content: CheckpointContent) -> str | bytes:
    """Return the content and the current random states, as a checkpoint stores them.

    It is one line of JSON; where callbacks remember arrays, an .npz file follows.
    """
    arrays: list[Any] = []
    callbacks = callback_state.to_json(content.callbacks, arrays)
    text = json.dumps(
        {
            "position": position_to_json(content.position),
            "metrics": dict(content.metrics),
            "history": [{"epoch": each.epoch, "logs": dict(each.logs)} for each in content.history],
            **({"finished": True} if content.finished else {}),
            **({"callbacks": callbacks} if callbacks else {}),
            **random_state(),
        }
    )
    return text.encode() + b"\n" + callback_state.pack_arrays(arrays) if arrays else text


def restore(stored: str | bytes) -> CheckpointContent:
    """Set the random states that a checkpoint holds, and return its content."""
    text, _, arrays = (stored.encode() if isinstance(stored, str) else stored).partition(b"\n")
    found: dict[str, Any] = json.loads(text)
    set_random_state(found)
    return CheckpointContent(
        position_from_json(found["position"]),
        found.get("metrics", {}),
        tuple(EpochLogs(each["epoch"], each["logs"]) for each in found.get("history", [])),
        finished=found.get("finished", False),
        callbacks=callback_state.from_json(
            found.get("callbacks", []), callback_state.unpack_arrays(arrays) if arrays else ()
        ),
        random={name: found[name] for name in RANDOM_STATES if name in found},
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
        **({"iterator": b64encode(position.iterator_state).decode()} if position.iterator_state else {}),
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
        iterator_state=b64decode(found["iterator"]) if "iterator" in found else None,
    )


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
            def serialize(self) -> str | bytes:
                return serialize(held.content)

            def deserialize(self, string_value: str | bytes) -> None:
                held.content = restore(string_value)

        return {"step": self._step, "state": State()}
