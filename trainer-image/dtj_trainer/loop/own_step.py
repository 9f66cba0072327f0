"""A step of the user's own in the loop, over a tf.Module or a dict of trackables."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from dtj_trainer.errors import UserError
from dtj_trainer.loop.learning_rate import rate_of


class OwnStep:
    """A Trainee around `step(state, batch) -> {"loss": scalar, …}`; gradients are the step's own affair."""

    def __init__(self, step: Callable[[Any, Any], Any], state: Any) -> None:
        self._step = step
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
        if len(batches) > 1:
            raise UserError("accumulate works with dtj.fit; a step of your own accumulates by itself")
        values = self._step(self._state, batches[0])
        values = {} if values is None else values
        if not isinstance(values, Mapping):
            raise UserError(f"the train step returned {type(values).__name__}; it has to return a dict of scalars")
        return values

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

    def metrics(self) -> dict[str, float]:
        return {}

    def reset_metrics(self) -> None:
        return

    def settle(self) -> None:
        return

    def learning_rate(self) -> float | None:
        return rate_of(self.objects.get("optimizer"))
