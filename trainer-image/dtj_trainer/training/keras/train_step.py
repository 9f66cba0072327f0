"""One update of a compiled model, and one test step.

Each replica's loss is scaled by 1 / replicas and Keras' optimizers sum gradients, so the sum over replicas is the
gradient of the global batch's mean. Both are made here instead, once: the share, because Keras gives it to some losses
alone; the sum, so that clipping, also Keras' own `clipnorm`, sees the gradient of the global batch: Keras alone clips
each replica's share and so trains something else.
"""

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dtj_trainer.compat import keras as compat
from dtj_trainer.compat.types import Model, Structure, Tensor
from dtj_trainer.context import TrainContext
from dtj_trainer.errors import UserError
from dtj_trainer.training.keras import gradients
from dtj_trainer.training.keras.gradients import Gradient
from dtj_trainer.training.keras.metrics import ModelMetrics
from dtj_trainer.training.steps.trainable import EvaluationOutput, StepOutput


class KerasSteps:
    """The steps of a compiled model, in replica context."""

    def __init__(self, model: Model, context: TrainContext, metrics: ModelMetrics, *, clip_norm: float | None) -> None:
        self._model = model
        self._context = context
        self._metrics = metrics
        self._clip_norm = clip_norm
        self._has_training = compat.call_has_training(model)
        self._loss_has_training = "training" in inspect.signature(model.compute_loss).parameters
        self._share = 1.0
        """Where the optimizer sums over replicas again: what makes a mean of that."""

    @contextmanager
    def tracing(self) -> Iterator[None]:
        """Return the context in which a step is traced."""
        if self._context.replicas == 1:
            yield
            return
        with compat.scalable_sums(), compat.without_gradient_sum(self._model.optimizer) as skips:
            self._share = 1.0 if skips else 1.0 / self._context.replicas
            yield

    def train(self, batches: Structure) -> StepOutput:
        """Make one update from a tuple of local batches."""
        import tensorflow as tf

        with self._metrics.deferred() as metric_updates:
            found = [self._loss_and_gradients(batch) for batch in batches]
            self._apply(gradients.mean([gradient for _, gradient in found]))
            total = tf.add_n([tf.cast(loss, tf.float32) for loss, _ in found])
            return StepOutput({"loss": total / len(found)}, metric_updates())

    def test(self, batch: Structure) -> EvaluationOutput:
        """Evaluate a local batch; updates the metrics."""
        import keras
        import tensorflow as tf

        x, y, weight = keras.utils.unpack_x_y_sample_weight(batch)
        count = tf.cast(tf.shape(tf.nest.flatten(batch)[0])[0], tf.float32)
        with self._metrics.deferred() as metric_updates:
            predicted = self._model(x, training=False) if self._has_training else self._model(x)
            with self._metrics.of_one_replica(count):
                loss = self._loss(x, y, predicted, weight, training=False)
            with self._metrics.of_one_replica(count):
                self._metrics.update(x, y, predicted, weight)
            mean = tf.cast(loss, tf.float32)
            sums = {"loss": tf.math.multiply_no_nan(mean, count)}  # a replica without an example has no mean
            return EvaluationOutput(sums, count, metric_updates())

    def _loss_and_gradients(self, batch: Structure) -> tuple[Tensor, list[Gradient]]:
        """Return the loss of a local batch and the gradients of its share; updates the metrics."""
        import keras
        import tensorflow as tf

        model = self._model
        x, y, weight = keras.utils.unpack_x_y_sample_weight(batch)
        with tf.GradientTape() as tape:
            predicted = model(x, training=True) if self._has_training else model(x)
            with self._metrics.of_one_replica():
                loss = self._loss(x, y, predicted, weight, training=True)
            scaled = model.optimizer.scale_loss(loss / self._context.replicas)
        with self._metrics.of_one_replica():  # a loss may be a metric
            self._metrics.update(x, y, predicted, weight)
        return loss, tape.gradient(scaled, [variable.value for variable in model.trainable_variables])

    def _loss(self, x: Tensor, y: Tensor, predicted: Tensor, weight: Tensor | None, *, training: bool) -> Tensor:
        """Return the mean over a local batch."""
        extra: dict[str, Any] = {"training": training} if self._loss_has_training else {}
        return self._model.compute_loss(x=x, y=y, y_pred=predicted, sample_weight=weight, **extra)

    def _apply(self, found: list[Gradient]) -> None:
        import tensorflow as tf

        optimizer = self._model.optimizer
        if all(gradient is None for gradient in found):
            raise UserError("no trainable variable of the model has a gradient; check its loss and trainable flags")
        if self._context.replicas > 1:
            found = gradients.sum_over_replicas(found)
        if self._clip_norm is not None:
            limit = optimizer.scale_loss(tf.constant(self._clip_norm, tf.float32))  # as gradients are now
            found = gradients.clip(found, limit)
        if self._share != 1.0:
            found = gradients.scale(found, self._share)
        optimizer.apply(found, self._model.trainable_variables)
