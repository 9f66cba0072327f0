"""What the loop needs of the thing it trains: a Keras model, or a state with a step of the user's own."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol


class Trainee(Protocol):
    """Trained by the loop."""

    objects: Mapping[str, Any]
    """Trackables that a checkpoint holds."""

    def tracing(self) -> AbstractContextManager[None]:
        """Held while `step` is traced."""

    def names(self, strategy: Any, read: Callable[[], Any], /) -> tuple[str, ...]:
        """Names of the scalars that a step returns, asked before the loop is traced; `read` reads one update's
        batches.
        """

    def step(self, batches: Any) -> Mapping[str, Any]:
        """One update, in replica context, from a tuple of local batches. Returns scalars, each a mean over replicas'
        own examples.
        """

    def step_apart(self, batches: Any) -> tuple[Mapping[str, Any], list[Any]]:
        """One update by one of several workers that do not wait for one another; also returns what it adds to the
        metrics' accumulators, which such workers cannot write.
        """

    def evaluate(self, batch: Any) -> tuple[Mapping[str, Any], Any]:
        """Sums over the examples of a local batch, and their number; in replica context, without training."""

    def evaluate_apart(self, batch: Any) -> tuple[Mapping[str, Any], Any, list[Any]]:
        """As `evaluate`, but returns what the batch adds to the metrics' accumulators instead of writing it."""

    def accumulators(self) -> list[tuple[int, ...]]:
        """Shapes of the metrics' accumulators."""

    def collect(self, accumulated: Sequence[Any], /) -> None:
        """Add to the metrics' accumulators what came back from `step_apart`."""

    def count_updates(self, updates: int) -> None:
        """Set the optimizer's own count of updates, which workers that overtake one another get wrong."""

    def metrics(self) -> dict[str, Any]:
        """Metrics since the last reset, over all replicas, numbers or arrays as in Keras; every process calls it."""

    def metrics_here(self) -> dict[str, Any]:
        """Metrics since the last reset, over this process's replicas."""

    def reset_metrics(self) -> None: ...

    def finish(self) -> None:
        """Do what is due once after the last step."""

    def settle(self) -> None:
        """Make what replicas hold of their own (moving statistics) equal, before it is saved or evaluated; every
        process calls it.
        """

    def learning_rate(self) -> float | None: ...

    def same_rate(self) -> AbstractContextManager[None]:
        """The learning rate is afterwards what it was before."""
