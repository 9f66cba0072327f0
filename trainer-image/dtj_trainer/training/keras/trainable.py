"""The Trainable of `dtj.fit`: a compiled Keras 3 model."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from dtj_trainer.compat.types import Array, MetricValues, Model
from dtj_trainer.context import TrainContext
from dtj_trainer.data.adapters.batch_split import Share
from dtj_trainer.training.keras.checks import compiles_with_xla, overrides
from dtj_trainer.training.keras.learning_rate import keep_learning_rate, rate_of
from dtj_trainer.training.keras.metrics import ModelMetrics
from dtj_trainer.training.keras.statistics import counters, statistics_sync
from dtj_trainer.training.keras.train_step import KerasSteps
from dtj_trainer.training.steps.trainable import EvaluationOutput, StepOutput


class KerasTrainable:
    """A Trainable around a compiled and built model."""

    def __init__(self, model: Model, context: TrainContext, *, clip_norm: float | None) -> None:
        import tensorflow as tf

        self._model = model
        self._context = context
        self._metrics = ModelMetrics(model, context)
        self._steps = KerasSteps(model, context, self._metrics, clip_norm=clip_norm)
        self._train: Callable[[Sequence[Share]], StepOutput] = self._steps.train
        if compiles_with_xla(model):
            self._train = tf.function(self._steps.train, autograph=False, jit_compile=True)
        self._logged: set[str] = set()
        """What the model's own steps return, by name."""
        self._updates_before = int(model.optimizer.iterations.numpy())
        """The updates of earlier trainings of this model."""
        self._sync: Callable[[], None] | None = None
        self.objects: Mapping[str, Any] = {"model": model, "optimizer": model.optimizer, "random": counters(model)}

    @property
    def one_step_per_call(self) -> bool:
        """TensorFlow's collectives wait without end where one call adds up gradients of different shapes."""
        return self._context.workers > 1 and self._steps.shapes_vary

    @property
    def reports_last_step(self) -> bool:
        """Keras does so with what a model's own step returns."""
        return overrides(self._model, "train_step")

    def tracing(self) -> AbstractContextManager[None]:
        return self._steps.tracing()

    def output_spec(self, update: Callable[[], StepOutput]) -> StepOutput:
        """Return the specs without a trace: the loss, and the metric updates where metrics are deferred.

        What a model's own step returns is found out by a trace.
        """
        import tensorflow as tf

        if overrides(self._model, "train_step"):
            names: list[str] = []
            tf.function(lambda: names.extend(update().scalars), autograph=False).get_concrete_function()
            self._logged.update(names)
            return StepOutput({name: tf.TensorSpec([], tf.float64) for name in names})
        accumulators = self._metrics.accumulators() if self._context.defers_metrics else []
        updates = tuple(tf.TensorSpec(variable.shape, tf.float64) for variable in accumulators)
        return StepOutput({"loss": tf.TensorSpec([], tf.float64)}, updates)

    def train_step(self, shares: Sequence[Share]) -> StepOutput:
        return self._train(shares)

    def test_step(self, share: Share) -> EvaluationOutput:
        output = self._steps.test(share)
        self._logged.update(output.sums)
        return output

    def add_metric_updates(self, updates: Sequence[Array], /) -> None:
        self._metrics.add(updates)

    def count_updates(self, updates: int) -> None:
        optimizer = self._model.optimizer
        for each in (optimizer, getattr(optimizer, "inner_optimizer", None)):
            if each is not None:
                each.iterations.assign(self._updates_before + updates)

    def metrics(self) -> MetricValues:
        return self._as_logged(self._metrics.results())

    def local_metrics(self) -> MetricValues:
        return self._as_logged(self._metrics.local_results())

    def _as_logged(self, results: MetricValues) -> MetricValues:
        """Return the results of metrics; where the model has a step of its own, of those that the step returns."""
        if not self._metrics.has_own_step:
            return results
        return {name: value for name, value in results.items() if name in self._logged}

    def reset_metrics(self) -> None:
        self._metrics.reset()

    def sync_statistics(self) -> None:
        if self._context.replicas == 1:
            return
        self._sync = self._sync or statistics_sync(self._model, self._context.strategy)
        self._sync()

    def learning_rate(self) -> float | None:
        return rate_of(self._model.optimizer)

    def keep_learning_rate(self) -> AbstractContextManager[None]:
        return keep_learning_rate(self._model.optimizer)

    def finish(self) -> None:
        """Do what Keras does to a trained model: an optimizer that averages weights (`use_ema`) puts them in."""
        self._model.optimizer.finalize_variable_values(self._model.trainable_variables)
