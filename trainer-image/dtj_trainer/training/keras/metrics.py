"""The metrics of a compiled model over replicas.

Each replica has its own accumulators, which are summed when a metric is read. Under ParameterServer and CentralStorage
steps may not write them, because replicas share them without a reduction: there a step returns its updates
(`metric_updates`), and this process adds them.
"""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from dtj_trainer.compat import keras as compat
from dtj_trainer.compat.types import Array, KerasVariable, Metric, MetricValues, Model, Strategy, Tensor
from dtj_trainer.context import TrainContext
from dtj_trainer.training.keras.checks import overrides
from dtj_trainer.training.keras.loss import as_one_replica


class _Replica(threading.local):
    """The state while a step of one replica is traced; TensorFlow traces each replica in its own thread."""

    deferred: list[Tensor] | None = None
    """In a step that may not write the accumulators: their values so far."""


class ModelMetrics:
    """The metrics of a model, mostly except the mean of its loss, which the loop computes."""

    def __init__(self, model: Model, context: TrainContext) -> None:
        self._model = model
        self._context = context
        self._replica = _Replica()
        self.has_own_step = overrides(model, "train_step") or overrides(model, "test_step")
        self._sums: list[Array] | None = None
        """Where steps may not write the accumulators: their values since the last reset."""
        self._readers: dict[str, Callable[[], list[Tensor]]] = {}

    def tracked(self) -> list[Metric]:
        """Return the metrics; with the mean of the loss where the model has a step of its own, which may update it."""
        own = None if self.has_own_step else compat.loss_tracker(self._model)
        return [metric for metric in self._model.metrics if metric is not own]

    def accumulators(self) -> list[KerasVariable]:
        """Return the variables of all metrics."""
        return [variable for metric in self.tracked() for variable in metric.variables]

    @contextmanager
    def deferred(self) -> Iterator[Callable[[], tuple[Tensor, ...]]]:
        """Let updates inside go into values from zero on, which the yielded function returns; where they have to."""
        import tensorflow as tf

        replica = self._replica
        if self._context.defers_metrics:
            replica.deferred = [tf.zeros(v.shape, v.dtype) for v in self.accumulators()]
        try:
            yield lambda: tuple(replica.deferred or ())
        finally:
            replica.deferred = None

    @contextmanager
    def of_one_replica(self, examples: Tensor | None = None, part: Tensor | None = None) -> Iterator[None]:
        """Let losses inside be those of one replica, and updates of metrics go where this step keeps accumulators.

        Updates are undone on a replica that has no `examples`: they are of those of others. `part` is what it has of
        all. What else is written to the model's variables is written at the end.
        """
        replica, context = self._replica, self._context
        counted = part is not None and bool(compat.output_losses(self._model))
        if context.replicas == 1 and replica.deferred is None and not counted:
            yield
            return
        import keras
        import tensorflow as tf

        variables = self.accumulators()
        held = replica.deferred or [tf.convert_to_tensor(variable.value) for variable in variables]
        regular = [v for v in self._model.trainable_variables if getattr(v, "regularizer", None) is not None]
        known = [*zip(variables, held, strict=True), *((v, v.value) for v in regular)]  # Keras asks for these
        with keras.StatelessScope(state_mapping=known, collect_losses=True) as scope:
            before = [scope.get_current_value(variable) for variable in variables]
            compat.keep_added_losses(self._model, scope)
            with as_one_replica(context.strategy, context.local_replicas):
                yield
        after = [scope.get_current_value(variable) for variable in variables]
        if part is not None:
            after = self.count_outputs_once(before, after, part)
        if examples is not None and context.replicas > 1:
            pairs = zip(after, before, strict=True)
            after = [old if new is old else tf.where(examples > 0, new, old) for new, old in pairs]
        if replica.deferred is not None:
            replica.deferred = after
            return
        own = {id(variable) for variable in variables}
        others = [v for v in self._model.non_trainable_variables if id(v) not in own]
        changed = [
            *zip(variables, after, before, strict=True),
            *((v, scope.get_current_value(v), None) for v in others),
        ]
        for variable, new, old in changed:
            if new is not old:
                variable.value.assign(new)

    def count_outputs_once(self, before: Sequence[Tensor], after: Sequence[Tensor], part: Tensor) -> list[Tensor]:
        """Return the accumulators' values `after` a batch so that it counts once for the means of outputs' losses.

        Keras counts a batch once there, whatever its examples are, and each replica has `part` of them.
        """
        import tensorflow as tf

        numbers = {id(variable): number for number, variable in enumerate(self.accumulators())}
        found = list(after)
        for mean in compat.output_losses(self._model):
            total, count = numbers[id(mean.total)], numbers[id(mean.count)]  # type: ignore[attr-defined]
            updates = after[count] - before[count]
            value = tf.math.divide_no_nan(after[total] - before[total], updates)
            counted = tf.where(updates > 0, tf.cast(part, value.dtype), 0)
            found[total] = before[total] + tf.math.multiply_no_nan(value, counted)
            found[count] = before[count] + counted
        return found

    def update(self, x: Tensor, y: Tensor, predicted: Tensor, weight: Tensor | None) -> None:
        """Update all metrics from a local batch, but losses of outputs, which Keras updates with the loss."""
        if overrides(self._model, "compute_metrics"):
            self._model.compute_metrics(x, y, predicted, weight)
            return
        for metric in self.tracked():
            if metric.name == "compile_metrics":
                metric.update_state(y, predicted, weight)

    def add(self, updates: Sequence[Array]) -> None:
        """Add the sums of the updates of steps that may not write the accumulators; of a model's own step none."""
        if not updates:
            return
        before = self._sums
        self._sums = list(updates) if before is None else [a + b for a, b in zip(before, updates, strict=True)]

    def results(self) -> MetricValues:
        """Return the metrics over all replicas, by Keras' names; every process calls it."""
        return self._results(_sum_over_all)

    def local_results(self) -> MetricValues:
        """Return the metrics over this process's replicas."""
        return self._results(_sum_here)

    def reset(self) -> None:
        """Set the metrics back."""
        self._sums = None
        for metric in self.tracked():
            for each in getattr(metric, "metrics", None) or [metric]:
                _reset(each)

    def _results(self, added: Callable[[Strategy, Tensor], Tensor]) -> MetricValues:
        import keras
        import numpy as np

        results: MetricValues = {}
        values = iter(self._read(added) if self._sums is None else self._sums)
        for metric in self.tracked():
            if not metric.variables:
                continue
            held = [(variable, np.asarray(next(values), dtype=variable.dtype)) for variable in metric.variables]
            with keras.StatelessScope(state_mapping=held):
                result = metric.result()  # may be a variable
                results.update(_flat(result if isinstance(result, dict) else {metric.name: result}))
        return results

    def _read(self, added: Callable[[Strategy, Tensor], Tensor]) -> list[Tensor]:
        """Return the accumulators, each `added` over replicas."""
        import tensorflow as tf

        if added.__name__ not in self._readers:
            strategy, variables = self._context.strategy, self.accumulators()
            replicas = self._context.replicas if added is _sum_over_all else self._context.local_replicas

            def local() -> list[Tensor]:
                return [tf.convert_to_tensor(variable.value) for variable in variables]

            @tf.function(autograph=False)
            def read() -> list[Tensor]:
                pairs = zip(variables, strategy.run(local), strict=True)
                return [_reduced(variable, added(strategy, value), replicas) for variable, value in pairs]

            self._readers[added.__name__] = read if variables else list
        return self._readers[added.__name__]()


def _reset(metric: Metric) -> None:
    """Set a metric back; where that means zeros, in each replica by itself: else an assignment waits for a collective.

    `strategy.run(metric.reset_state)` would do that too, but is slow outside a tf.function, and TensorFlow says so.
    """
    import keras
    import tensorflow as tf

    plain = isinstance(metric, keras.metrics.Mean) or type(metric).reset_state is keras.Metric.reset_state
    held = [variable.value for variable in metric.variables]
    on_read = tf.VariableSynchronization.ON_READ
    if not plain or not all(getattr(v, "synchronization", None) == on_read and hasattr(v, "values") for v in held):
        metric.reset_state()
        return
    for variable in held:
        for part in variable.values:
            part.assign(tf.zeros(part.shape, part.dtype))


def _reduced(variable: KerasVariable, total: Tensor, replicas: int) -> Tensor:
    """Return what a metric's variable has over replicas, from the sum: their mean where the metric says so."""
    import tensorflow as tf

    is_mean = getattr(variable, "aggregation", "sum") == "mean"
    return total / tf.cast(replicas, total.dtype) if is_mean else total


def _sum_over_all(strategy: Strategy, value: Tensor) -> Tensor:
    return strategy.reduce("SUM", value, axis=None)


def _sum_here(strategy: Strategy, value: Tensor) -> Tensor:
    import tensorflow as tf

    return tf.add_n(strategy.experimental_local_results(value))


def _flat(results: Mapping[str, Any]) -> MetricValues:
    """Return numbers and arrays; several results of one metric have their own names alone, as in Keras."""
    import numpy as np

    found: MetricValues = {}
    for name, value in results.items():
        if isinstance(value, dict):
            found |= _flat(value)
        else:
            found[name] = float(value) if np.ndim(value) == 0 else np.asarray(value)
    return found
