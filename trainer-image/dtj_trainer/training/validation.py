"""Validation: each process evaluates its share, and the sums are added up."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from dtj_trainer.compat.types import Structure, Tensor
from dtj_trainer.context import TrainContext
from dtj_trainer.data.adapters.adapter import EMPTY_VALIDATION, get_validation_adapter
from dtj_trainer.data.sharding import BatchSize
from dtj_trainer.errors import PreflightFailed
from dtj_trainer.training.steps import packing
from dtj_trainer.training.steps.step_runner import StepsPerExecutionTuner
from dtj_trainer.training.steps.trainable import EvaluationOutput, Trainable


@dataclass(frozen=True, slots=True)
class BatchHooks:
    """Called around each batch that this process evaluates, with its number, and at its end what was found so far."""

    begin: Callable[[int], None]
    end: Callable[[int, dict[str, Any]], None]
    enough: Callable[[], bool]
    """Whether the batches so far are all that this process evaluates."""


class _Round(NamedTuple):
    """What was evaluated so far, and how the last round of it went; summed over processes."""

    output: EvaluationOutput
    seconds: float
    batches: int
    more: bool
    leaving: bool


class Validation:
    """The validation of one training; `run` is called by every process at the same step."""

    def __init__(self, trainable: Trainable, context: TrainContext, data: Any, batch_size: BatchSize) -> None:
        self._trainable = trainable
        self._context = context
        self._data = get_validation_adapter(data, context.sharding, batch_size)
        self._output: EvaluationOutput
        self._dataset: Any = None
        self._of_batch: Any = None
        self._of_several: Any = None
        self._sum: Any = None
        self._tuner = StepsPerExecutionTuner()
        self.found: Mapping[str, Any] = {}
        """Of the last run, also where it was left before its end; names without `val_`."""

    @classmethod
    def of(cls, trainable: Trainable, context: TrainContext, data: Any, batch_size: BatchSize) -> "Validation | None":
        """Return the validation of a training; None without data."""
        return None if data is None else cls(trainable, context, data, batch_size)

    def run(self, each: BatchHooks | None = None) -> Mapping[str, Any] | None:
        """Return means and metrics over the whole validation data, names with `val_` before them.

        None in every process, after the same number of batches, where one was asked to leave meanwhile.

        Processes agree after about as many batches as a call of training steps lasts. Without `each` these are
        evaluated in one call, where the strategy allows that.

        Raises:
            PreflightFailed: there was no example, in every process.
        """
        if self._dataset is None:
            self._dataset = self._data.evaluation_dataset()
            self._compile()
        self._trainable.reset_metrics()
        together = each is None and self._of_several is not None
        rounds = self._by_several() if together else self._one_by_one(each)
        while True:
            began = time.monotonic()
            vector, batches, more = next(rounds)
            seconds, leaving = time.monotonic() - began, self._context.commands.preempted.is_set()
            total = self._over_processes(_Round(vector, seconds, batches, more, leaving))
            self._tuner.learn(float(total.seconds) / max(1.0, float(total.batches)))
            if not total.more and not total.output.examples:
                raise PreflightFailed(EMPTY_VALIDATION)
            if not total.more or total.leaving:
                self.found = {**_means(total.output), **self._trainable.metrics()}
                return None if total.more else {f"val_{name}": value for name, value in self.found.items()}

    def _by_several(self) -> Iterator[tuple[Any, int, bool]]:
        """Yield call by call the packed sums so far, the batches of that call, and whether more come; without end."""
        import tensorflow as tf

        iterator = iter(self._dataset)
        batch, vector = iterator.get_next_as_optional(), tf.zeros([self._size(iterator.element_spec)], tf.float64)
        while True:
            made, batch, vector = self._of_several(iterator, batch, vector, tf.constant(self._tuner.count))
            yield vector, int(made), bool(batch.has_value())

    def _one_by_one(self, each: BatchHooks | None) -> Iterator[tuple[Any, int, bool]]:
        """Yield the same, with a call for each batch."""
        import numpy as np

        vector, made = np.zeros(self._size(self._dataset.element_spec)), 0
        for number, batch in enumerate(self._dataset):
            if made == self._tuner.count:
                yield vector, made, True
                made = 0
            if each is not None:
                each.begin(number)
            new = self._of_batch(batch).numpy()
            vector, made = vector + new, made + 1
            if updates := packing.unpack(new, self._output).metric_updates:
                self._trainable.add_metric_updates(updates)
            if each is not None:
                means = _means(packing.unpack(vector, self._output))
                each.end(number, {**means, **self._trainable.local_metrics()})
                if each.enough():
                    break
        while True:
            yield vector, made, False
            made = 0

    def _size(self, spec: Structure) -> int:
        """Return the size of what a batch of this structure gives, packed, from a trace."""
        self._of_batch.get_concrete_function(spec)
        return packing.size(self._output)

    def _over_processes(self, own: _Round) -> _Round:
        """Return the sums over processes; `own` has its output packed."""
        import tensorflow as tf

        vector = packing.pack(own)
        scalar = tf.TensorSpec([], tf.float64)
        like: Any = _Round(self._output, *[scalar] * 4)
        summed: _Round = packing.unpack((vector if self._sum is None else self._sum(vector)).numpy(), like)
        return summed

    def _compile(self) -> None:
        import tensorflow as tf

        context, strategy = self._context, self._context.strategy
        compiled = tf.function(autograph=False, reduce_retracing=True)
        if context.workers > 1:
            local = context.local_replicas
            self._sum = compiled(lambda vector: packing.sum_over_processes(strategy, vector, local_replicas=local))
        if context.defers_metrics:
            self._of_batch = compiled(self._on_one_device)
            return
        self._of_batch = compiled(self._on_replicas)
        self._of_several = compiled(self._several)

    def _packed(self, batch: Structure) -> Tensor:
        output = self._trainable.test_step(batch)
        self._output = packing.specs(output)
        return packing.pack(output)

    def _on_one_device(self, batch: Structure) -> Tensor:
        """Evaluate a batch on one device of this process; the workers of ParameterServer rest meanwhile."""
        with self._trainable.tracing():
            return self._packed(batch)

    def _on_replicas(self, batch: Structure) -> Tensor:
        """Evaluate a batch; each of this process's replicas has its part of it."""
        import tensorflow as tf

        context, strategy = self._context, self._context.strategy

        def one(batch: Structure) -> Tensor:
            replica = tf.distribute.get_replica_context()
            if context.local_replicas > 1:
                number = replica.replica_id_in_sync_group % context.local_replicas
                batch = tf.nest.map_structure(lambda tensor: tensor[number :: context.local_replicas], batch)
            return self._packed(batch)

        with self._trainable.tracing():
            return tf.add_n(strategy.experimental_local_results(strategy.run(one, args=(batch,))))

    def _several(self, iterator: Any, batch: Any, vector: Tensor, most: Tensor) -> Any:
        """Evaluate from `batch` on at most so many batches.

        Returns how many there were, the one after them, and `vector` with theirs added.
        """
        import tensorflow as tf

        def body(number: Tensor, batch: Any, vector: Tensor) -> Any:
            new = self._on_replicas(batch.get_value())
            return number + 1, iterator.get_next_as_optional(), vector + new

        start = (tf.constant(0), batch, vector)
        return tf.while_loop(lambda number, batch, _: (number < most) & batch.has_value(), body, start)


def _means(output: EvaluationOutput) -> dict[str, float]:
    return {name: float(total) / max(1.0, float(output.examples)) for name, total in output.sums.items()}
