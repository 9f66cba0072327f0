"""A step of the user's own in the loop, over a tf.Module or a dict of trackables."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from dtj_trainer.errors import UserError
from dtj_trainer.loop.learning_rate import rate_of


class OwnStep:
    """A Trainee around `step(state, batch) -> {"loss": scalar, …}`; gradients are the step's own affair."""

    def __init__(
        self,
        step: Callable[[Any, Any], Any],
        state: Any,
        validation_step: Callable[[Any, Any], Any] | None,
        accumulate: int = 1,
    ) -> None:
        self._accumulate = accumulate
        self._step = step
        self._validation_step = validation_step
        self._state = state
        self.objects: Mapping[str, Any] = dict(state) if isinstance(state, Mapping) else {"state_module": state}

    @contextmanager
    def tracing(self) -> Iterator[None]:
        yield

    def names(self, strategy: Any, read: Callable[[], Any]) -> tuple[str, ...]:
        """Trace the step once, beside the loop, to learn what it returns."""
        import tensorflow as tf

        found: list[str] = []

        @tf.function(autograph=False)
        def once() -> None:
            batches, _ = read()
            found.extend(strategy.run(self.step, args=(batches,)))

        once.get_concrete_function()
        return tuple(found)

    def step(self, batches: Any) -> Mapping[str, Any]:
        return _scalars(self._step(self._state, batches[0] if self._accumulate == 1 else batches), "train step")

    def evaluate(self, batch: Any) -> tuple[Mapping[str, Any], Any]:
        import tensorflow as tf

        assert self._validation_step is not None
        count = tf.cast(tf.shape(tf.nest.flatten(batch)[0])[0], tf.float64)
        means = _scalars(self._validation_step(self._state, batch), "validation step")
        return {name: tf.math.multiply_no_nan(tf.cast(mean, tf.float64), count) for name, mean in means.items()}, count

    def evaluate_apart(self, batch: Any) -> tuple[Mapping[str, Any], Any, list[Any]]:
        sums, count = self.evaluate(batch)
        return sums, count, []

    def step_apart(self, batches: Any) -> tuple[Mapping[str, Any], list[Any]]:
        return self.step(batches), []

    def accumulators(self) -> list[tuple[int, ...]]:
        return []

    def collect(self, _accumulated: Sequence[Any], /) -> None:
        return

    def count_updates(self, updates: int) -> None:
        optimizer = self.objects.get("optimizer")
        if optimizer is not None and hasattr(optimizer, "iterations"):
            optimizer.iterations.assign(updates)

    def metrics(self) -> dict[str, Any]:
        return {}

    def metrics_here(self) -> dict[str, Any]:
        return {}

    def reset_metrics(self) -> None:
        return

    def settle(self) -> None:
        return

    def learning_rate(self) -> float | None:
        return rate_of(self.objects.get("optimizer"))


def _scalars(values: Any, what: str) -> Mapping[str, Any]:
    values = {} if values is None else values
    if not isinstance(values, Mapping):
        raise UserError(f"the {what} returned {type(values).__name__}; it has to return a dict of scalars")
    for name, value in values.items():
        if getattr(getattr(value, "shape", None), "rank", 0):
            raise UserError(f"the {what} returned {name!r} of shape {tuple(value.shape)}; reduce it to a scalar")
    return values
