"""The result of a training: a Keras History with more fields."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Protocol

from dtj_trainer.checkpoint.content import EpochLogs


class History(Protocol):
    """A keras.callbacks.History, complete after a resume too, and what is not in one of Keras."""

    epoch: list[int]
    history: dict[str, list[Any]]
    """Values by epoch, by name; of `val_…` those of validated epochs alone."""
    params: dict[str, Any]
    model: Any
    step: int
    """The last step."""
    metrics: Mapping[str, float]
    """Means over the last epoch."""
    strategy: str
    resumed_from: int | None
    """The step of the checkpoint from which this process went on."""


def make_history(
    model: Any,
    epochs: Sequence[EpochLogs],
    params: Mapping[str, Any],
    *,
    step: int,
    metrics: Mapping[str, float],
    strategy: str,
    resumed_from: int | None,
) -> History:
    """Return the History of a training."""
    history: History = _history_class()()
    history.params = dict(params)
    history.epoch = [each.epoch for each in epochs]
    history.history = {}
    for each in epochs:
        for name, value in each.logs.items():
            history.history.setdefault(name, []).append(value)
    history.step, history.metrics = step, dict(metrics)
    history.strategy, history.resumed_from = strategy, resumed_from
    if model is not None:
        history.set_model(model)  # type: ignore[attr-defined]  # Keras' own
        model.history = history
    return history


@cache
def _history_class() -> Any:
    import keras

    class TrainingHistory(keras.callbacks.History):
        """The History that `dtj.fit` and `dtj.train` return."""

    return TrainingHistory


def numbers(found: Mapping[str, Any]) -> dict[str, float]:
    """Return metrics as numbers: the mean of an array; what is not a number is left out."""
    import numpy as np

    arrays = {name: np.asarray(value) for name, value in found.items()}
    return {name: float(each.mean()) for name, each in arrays.items() if np.issubdtype(each.dtype, np.number)}


def history_logs(logs: Mapping[str, Any]) -> dict[str, Any]:
    """Return an epoch's logs as numbers and lists, which a checkpoint can hold; what is neither is left out."""
    import numpy as np

    arrays = {name: np.asarray(value) for name, value in logs.items()}
    return {name: each.tolist() for name, each in arrays.items() if np.issubdtype(each.dtype, np.number)}
