"""The Trainable: the interface between the loop and a Keras model, or a state with a custom step."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

from dtj_trainer.compat.types import Array, MetricValues, Tensor
from dtj_trainer.data.adapters.batch_split import Share


class StepOutput(NamedTuple):
    """The result of one update on one replica. A NamedTuple, because `tf.nest` does not open dataclasses."""

    scalars: Mapping[str, Tensor]
    """Means over this replica's examples."""
    metric_updates: tuple[Tensor, ...] = ()
    """What the step adds to the metrics' accumulators, where it may not write these itself."""


class EvaluationOutput(NamedTuple):
    """The result of one batch evaluated on one replica."""

    sums: Mapping[str, Tensor]
    """Sums over this replica's examples."""
    examples: Tensor
    metric_updates: tuple[Tensor, ...] = ()
    """As those of a StepOutput."""


class Trainable(Protocol):
    """A Keras model or custom step, as the loop trains it."""

    objects: Mapping[str, Any]
    """Trackables that a checkpoint holds."""

    @property
    def runs_eagerly(self) -> bool:
        """Whether steps are run by Python, op by op, and not compiled."""

    @property
    def one_step_per_call(self) -> bool:
        """Whether a call may not make several steps; asked after the first one."""

    @property
    def reports_last_step(self) -> bool:
        """Whether an epoch's logs are the scalars of its last step, and not means over the epoch."""

    def tracing(self) -> AbstractContextManager[None]:
        """Return the context in which `train_step` or `test_step` is traced."""

    def output_spec(self, update: Callable[[], StepOutput], /) -> StepOutput:
        """Return the tf.TensorSpecs of what `train_step` returns, asked before the loop is traced.

        `update` makes one update, in a trace.
        """

    def train_step(self, shares: Sequence[Share]) -> StepOutput:
        """Make one update, in replica context, from the Shares of this replica."""

    def test_step(self, share: Share) -> EvaluationOutput:
        """Evaluate the Share of this replica, in replica context, without training."""

    def add_metric_updates(self, updates: Sequence[Array], /) -> None:
        """Add arrays to the metrics' accumulators: the sum of the `metric_updates` of steps."""

    def count_updates(self, updates: int) -> None:
        """Set the optimizer's own count, which asynchronous workers get wrong, after the updates of this training."""

    def metrics(self, *, evaluated: bool = False) -> MetricValues:
        """Return the metrics since the last reset, over all replicas, numbers or arrays as in Keras.

        `evaluated`: those of `test_step`. Every process calls it.
        """

    def local_metrics(self, *, evaluated: bool = False) -> MetricValues:
        """Return the metrics since the last reset, over this process's replicas."""

    def reset_metrics(self) -> None:
        """Set the metrics back."""

    def finish(self) -> None:
        """Finish the training, once, after the last step."""

    def sync_statistics(self) -> None:
        """Average the moving statistics of all replicas, before they are saved or evaluated.

        Every process calls it.
        """

    def learning_rate(self) -> float | None:
        """Return the learning rate of the next update, if there is one."""

    def keep_learning_rate(self) -> AbstractContextManager[None]:
        """Restore the current learning rate afterwards."""
