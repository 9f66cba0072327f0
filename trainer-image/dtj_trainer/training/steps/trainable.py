"""What the loop needs of what it trains: a Keras model, or a state with a step of the user's."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

from dtj_trainer.compat.types import Array, MetricValues, Strategy, Structure, Tensor


class StepOutput(NamedTuple):
    """One update on one replica. A NamedTuple, because `tf.nest` does not open dataclasses."""

    scalars: Mapping[str, Tensor]
    """Means over this replica's examples."""
    metric_updates: tuple[Tensor, ...] = ()
    """What the step adds to the metrics' accumulators, where it may not write these itself."""


class EvaluationOutput(NamedTuple):
    """One batch evaluated on one replica."""

    sums: Mapping[str, Tensor]
    """Sums over this replica's examples."""
    examples: Tensor
    metric_updates: tuple[Tensor, ...] = ()
    """As those of a StepOutput."""


class Trainable(Protocol):
    """Trained by the loop."""

    objects: Mapping[str, Any]
    """Trackables that a checkpoint holds."""

    def tracing(self) -> AbstractContextManager[None]:
        """Be held while `train_step` or `test_step` is traced."""

    def output_spec(self, strategy: Strategy, read: Callable[[], Structure], /) -> StepOutput:
        """Return the tf.TensorSpecs of what `train_step` returns, asked before the loop is traced.

        `read` reads one update's batches.
        """

    def train_step(self, batches: Structure) -> StepOutput:
        """Make one update, in replica context, from a tuple of local batches."""

    def test_step(self, batch: Structure) -> EvaluationOutput:
        """Evaluate a local batch, in replica context, without training."""

    def add_metric_updates(self, updates: Sequence[Array], /) -> None:
        """Add arrays to the metrics' accumulators: the sum of the `metric_updates` of steps."""

    def count_updates(self, updates: int) -> None:
        """Set the optimizer's own count of updates, which workers that overtake one another get wrong."""

    def metrics(self) -> MetricValues:
        """Return the metrics since the last reset, over all replicas, numbers or arrays as in Keras.

        Every process calls it.
        """

    def local_metrics(self) -> MetricValues:
        """Return the metrics since the last reset, over this process's replicas."""

    def reset_metrics(self) -> None:
        """Set the metrics back."""

    def finish(self) -> None:
        """Do what is due once after the last step."""

    def sync_statistics(self) -> None:
        """Make what replicas hold of their own (moving statistics) equal, before it is saved or evaluated.

        Every process calls it.
        """

    def learning_rate(self) -> float | None:
        """Return the learning rate of the next update, if there is one."""

    def same_rate(self) -> AbstractContextManager[None]:
        """Set the learning rate afterwards to what it was before."""
