"""Validation: each process evaluates its share, and the sums are added up."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from dtj_trainer.compat.types import Structure, Tensor
from dtj_trainer.context import TrainContext
from dtj_trainer.data.adapters.adapter import EMPTY_VALIDATION, DataAdapter, get_validation_adapter
from dtj_trainer.data.adapters.batch_split import Share
from dtj_trainer.data.adapters.given_data import GivenData
from dtj_trainer.data.adapters.tensor_rows import batch_length, every_nth_row
from dtj_trainer.data.sharding import BatchSize
from dtj_trainer.errors import PreflightFailed
from dtj_trainer.training.steps import packing
from dtj_trainer.training.steps.step_runner import StepsPerExecutionTuner
from dtj_trainer.training.steps.trainable import EvaluationOutput, Trainable


@dataclass(frozen=True, slots=True)
class BatchHooks:
    """The callbacks around each batch of this process: `begin(number)`, and `end(number, metrics so far)`."""

    begin: Callable[[int], None]
    end: Callable[[int, dict[str, Any]], None]
    should_stop: Callable[[], bool]
    """Whether this process should evaluate no more batches."""


class _Round(NamedTuple):
    """The sums so far, and time and number of the last batches; summed over processes."""

    output: EvaluationOutput
    seconds: float
    batches: int
    more: bool
    preempted: bool


@dataclass(frozen=True, slots=True)
class ValidationSchedule:
    """When and how to validate: the `validation_…` arguments of `keras.Model.fit`."""

    batch_size: int | None = None
    steps: int | None = None
    freq: int | Sequence[int] = 1
    """After every so many epochs, or after these, counted from 1."""

    def check(self) -> None:
        """Raise PreflightFailed for a number that is impossible."""
        for name, value in (("batch_size", self.batch_size), ("steps", self.steps), ("freq", self.freq)):
            if isinstance(value, int) and value < 1:
                raise PreflightFailed(f"validation_{name} is {value}; it has to be at least 1")

    def is_due(self, epoch: int) -> bool:
        """Return whether to validate at the end of an epoch, counted from 0."""
        return (epoch + 1) % self.freq == 0 if isinstance(self.freq, int) else epoch + 1 in self.freq


EACH_EPOCH = ValidationSchedule()


class Validation:
    """The validation of one training; `run` is called by every process at the same step."""

    def __init__(
        self,
        trainable: Trainable,
        context: TrainContext,
        data: DataAdapter,
        schedule: ValidationSchedule = EACH_EPOCH,
    ) -> None:
        self.is_due = schedule.is_due
        self._trainable = trainable
        self._context = context
        self._data = data
        self._output: EvaluationOutput
        self._dataset: Any = None
        self._evaluate_batch: Any = None
        self._evaluate_batches: Any = None
        self._sum: Any = None
        self._tuner = StepsPerExecutionTuner()
        self.last_metrics: Mapping[str, Any] = {}
        """The metrics of the last run, complete or not; names without `val_`."""

    @classmethod
    def of(
        cls,
        trainable: Trainable,
        context: TrainContext,
        data: GivenData | None,
        schedule: ValidationSchedule,
        batch_size: BatchSize,
    ) -> "Validation | None":
        """Return the validation of a training; None without data."""
        schedule.check()
        if data is None:
            return None
        size = batch_size if schedule.batch_size is None else BatchSize(schedule.batch_size, schedule.batch_size)
        adapter = get_validation_adapter(data, context.sharding, size, schedule.steps)
        return cls(trainable, context, adapter, schedule)

    def run(self, each: BatchHooks | None = None) -> Mapping[str, Any] | None:
        """Return means and metrics over the whole validation data, names with `val_` before them.

        Returns None in every process, after the same number of batches, if one was preempted meanwhile.

        Processes synchronise after batches that take about as long as one call of training steps. Without `each`
        these are evaluated in one call, if the strategy allows that.

        Raises:
            PreflightFailed: no process has any example.
        """
        if self._dataset is None:
            self._dataset = self._data.evaluation_dataset()
            self._compile()
        self._trainable.reset_metrics()
        together = each is None and self._evaluate_batches is not None
        rounds = self._evaluate_in_graph() if together else self._evaluate_one_by_one(each)
        while True:
            began = time.monotonic()
            vector, batches, more = next(rounds)
            seconds, preempted = time.monotonic() - began, self._context.commands.preempted.is_set()
            total = self._sum_over_processes(_Round(vector, seconds, batches, more, preempted))
            self._context.reporter.batches_validated()
            self._tuner.learn(float(total.seconds) / max(1.0, float(total.batches)))
            if not total.more and not total.output.examples:
                raise PreflightFailed(EMPTY_VALIDATION)
            if not total.more or total.preempted:
                self.last_metrics = {**_means(total.output), **self._trainable.metrics(evaluated=True)}
                return None if total.more else {f"val_{name}": value for name, value in self.last_metrics.items()}

    def _evaluate_in_graph(self) -> Iterator[tuple[Any, int, bool]]:
        """Yield for each call the packed sums so far, its number of batches, and whether there are more; never ends."""
        import tensorflow as tf

        iterator = iter(self._dataset)
        batch, vector = iterator.get_next_as_optional(), tf.zeros([self._size(iterator.element_spec)], tf.float64)
        while True:
            evaluated, batch, vector = self._evaluate_batches(iterator, batch, vector, tf.constant(self._tuner.count))
            yield vector, int(evaluated), bool(batch.has_value())

    def _evaluate_one_by_one(self, each: BatchHooks | None) -> Iterator[tuple[Any, int, bool]]:
        """Yield the same, with a call for each batch."""
        import numpy as np

        vector, evaluated = np.zeros(self._size(self._dataset.element_spec)), 0
        for number, batch in enumerate(self._dataset):
            if evaluated == self._tuner.count:
                yield vector, evaluated, True
                evaluated = 0
            if each is not None:
                each.begin(number)
            new = self._evaluate_batch(batch).numpy()
            vector, evaluated = vector + new, evaluated + 1
            if updates := packing.unpack(new, self._output).metric_updates:
                self._trainable.add_metric_updates(updates)
            if each is not None:
                means = _means(packing.unpack(vector, self._output))
                each.end(number, {**means, **self._trainable.local_metrics(evaluated=True)})
                if self._stops(each):
                    break
        while True:
            yield vector, evaluated, False
            evaluated = 0

    def _stops(self, each: BatchHooks) -> bool:
        """Return whether to evaluate no more: where processes have Shares of the same batches, one decides for all."""
        import tensorflow as tf

        own = each.should_stop()
        if not isinstance(self._dataset.element_spec, Share):
            return own
        return bool(self._sum(tf.constant([own], tf.float64)).numpy()[0])

    def _size(self, spec: Structure) -> int:
        """Return the packed size of the output for a batch of this structure, from a trace; 1 without one."""
        import tensorflow as tf

        if self._trainable.runs_eagerly:
            self._output = EvaluationOutput({}, tf.TensorSpec([], tf.float64))
            return packing.size(self._output)
        self._evaluate_batch.get_concrete_function(spec)
        return packing.size(self._output)

    def _sum_over_processes(self, own: _Round) -> _Round:
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
        if self._trainable.runs_eagerly:
            self._evaluate_batch = self._on_replicas
            return
        if context.defers_metrics:
            self._evaluate_batch = compiled(self._on_one_device)
            return
        self._evaluate_batch = compiled(self._on_replicas)
        self._evaluate_batches = compiled(self._batches_on_replicas)

    def _packed(self, share: Share) -> Tensor:
        output = self._trainable.test_step(share)
        self._output = packing.specs(output)
        return packing.pack(output)

    def _on_one_device(self, element: Structure) -> Tensor:
        """Evaluate a batch on one device of this process; the workers of ParameterServer are idle meanwhile."""
        with self._trainable.tracing():
            return self._packed(_share(element))

    def _on_replicas(self, element: Structure) -> Tensor:
        """Evaluate a batch, or this process's Share of one; each of this process's replicas takes its part of it."""
        import tensorflow as tf

        context, strategy = self._context, self._context.strategy

        def one(element: Structure) -> Tensor:
            share = _share(element)
            if context.local_replicas > 1:
                replica = tf.distribute.get_replica_context()
                number = replica.replica_id_in_sync_group % context.local_replicas
                rows = every_nth_row(share.batch, number, context.local_replicas)
                share = Share(rows, batch_length(rows), share.total)
            return self._packed(share)

        with self._trainable.tracing():
            return tf.add_n(strategy.experimental_local_results(strategy.run(one, args=(element,))))

    def _batches_on_replicas(self, iterator: Any, batch: Any, vector: Tensor, most: Tensor) -> Any:
        """Evaluate at most `most` batches, from `batch` on.

        Returns how many there were, the next batch, and `vector` with their sums added.
        """
        import tensorflow as tf

        def body(number: Tensor, batch: Any, vector: Tensor) -> Any:
            new = self._on_replicas(batch.get_value())
            return number + 1, iterator.get_next_as_optional(), vector + new

        start = (tf.constant(0), batch, vector)
        return tf.while_loop(lambda number, batch, _: (number < most) & batch.has_value(), body, start)


def _share(element: Structure) -> Share:
    """Return the Share of this process: all of a batch that is not one."""
    return element if isinstance(element, Share) else Share(element, batch_length(element), None)


def _means(output: EvaluationOutput) -> dict[str, float]:
    return {name: float(total) / max(1.0, float(output.examples)) for name, total in output.sums.items()}
