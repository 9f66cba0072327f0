"""The Trainable of `dtj.fit`: a compiled Keras 3 model."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from dtj_trainer.compat import keras as compat
from dtj_trainer.compat.types import Array, MetricValues, Model
from dtj_trainer.context import TrainContext
from dtj_trainer.data.adapters.batch_split import Share
from dtj_trainer.training.keras.checks import compiles_with_xla, overrides, runs_eagerly
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
        self._logged_of_training: set[str] = set()
        self._logged_of_evaluation: set[str] = set()
        """The names of what the model's own `train_step` and `test_step` return."""
        self._updates_before = int(model.optimizer.iterations.numpy())
        """The updates of earlier trainings of this model."""
        self._sync: Callable[[], None] | None = None
        self.objects: Mapping[str, Any] = {"model": model, "optimizer": model.optimizer, "random": counters(model)}

    @property
    def runs_eagerly(self) -> bool:
        return runs_eagerly(self._model)

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
            return StepOutput({name: tf.TensorSpec([], tf.float64) for name in names})
        accumulators = self._metrics.accumulators() if self._context.defers_metrics else []
        updates = tuple(tf.TensorSpec(variable.shape, tf.float64) for variable in accumulators)
        return StepOutput({"loss": tf.TensorSpec([], tf.float64)}, updates)

    def train_step(self, shares: Sequence[Share]) -> StepOutput:
        output = self._train(shares)
        self._logged_of_training.update(output.scalars)
        return output

    def test_step(self, share: Share) -> EvaluationOutput:
        output = self._steps.test(share)
        self._logged_of_evaluation.update(output.sums)
        return output

    def add_metric_updates(self, updates: Sequence[Array], /) -> None:
        self._metrics.add(updates)

    def count_updates(self, updates: int) -> None:
        optimizer = self._model.optimizer
        for each in (optimizer, getattr(optimizer, "inner_optimizer", None)):
            if each is not None:
                each.iterations.assign(self._updates_before + updates)

    def metrics(self, *, evaluated: bool = False) -> MetricValues:
        return self._as_logged(self._metrics.results(), evaluated=evaluated)

    def local_metrics(self, *, evaluated: bool = False) -> MetricValues:
        return self._as_logged(self._metrics.local_results(), evaluated=evaluated)

    def _as_logged(self, results: MetricValues, *, evaluated: bool) -> MetricValues:
        """Return the results of metrics; of those that the step returns where it is the model's own.

        Else without the mean of the loss, which such a step may update and no other does.
        """
        if overrides(self._model, "test_step" if evaluated else "train_step"):
            logged = self._logged_of_evaluation if evaluated else self._logged_of_training
            return {name: value for name, value in results.items() if name in logged}
        tracker = compat.loss_tracker(self._model) if self._metrics.has_own_step else None
        return {name: value for name, value in results.items() if tracker is None or name != tracker.name}

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
