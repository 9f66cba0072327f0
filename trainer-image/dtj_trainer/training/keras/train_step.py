"""One update of a compiled model, and one test step.

Each replica's loss is scaled by its share of the examples, so the sum over replicas, and over the batches of an update,
is the gradient of the mean over all of them. Both are made here and not by Keras: the share, because Keras gives 1 /
replicas to some losses alone; the sum, so that clipping, also Keras' own `clipnorm`, sees the gradient of the global
batch: Keras alone clips each replica's share and so trains something else.
"""

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

from dtj_trainer.compat import keras as compat
from dtj_trainer.compat import keras_losses as compat_losses
from dtj_trainer.compat.keras_accumulation import accumulation_over_replicas, overwrites_over_replicas
from dtj_trainer.compat.types import Model, Tensor
from dtj_trainer.context import TrainContext
from dtj_trainer.data.adapters.batch_split import Share
from dtj_trainer.errors import UserError
from dtj_trainer.training.keras import gradients
from dtj_trainer.training.keras.checks import overrides
from dtj_trainer.training.keras.gradients import Gradient
from dtj_trainer.training.keras.loss import of_evaluated_share, of_share, whole
from dtj_trainer.training.keras.metrics import ModelMetrics
from dtj_trainer.training.keras.optimizers import all_optimizers
from dtj_trainer.training.keras.overridden_step import OverriddenTrainStep, mean_over_examples, test
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
        self._own_train_step = (
            OverriddenTrainStep(model, context, metrics, clip_norm=clip_norm)
            if overrides(model, "train_step")
            else None
        )
        self._has_own_test_step = overrides(model, "test_step")
        self.shapes_vary = False
        """Whether steps may add up gradients of different shapes over the replicas; known after a trace."""
        self._share = 1.0
        """Where the optimizer sums over replicas again: what makes a mean of that."""

    @contextmanager
    def tracing(self) -> Iterator[None]:
        """Return the context in which a step is traced."""
        own = nullcontext() if self._own_train_step is None else self._own_train_step.tracing()
        with compat_losses.unscaled_losses(), compat_losses.scalable_losses(), own:
            if self._context.replicas == 1:
                yield
                return
            optimizers = all_optimizers(self._model)
            with (
                compat.without_gradient_sum(optimizers) as skips,
                accumulation_over_replicas(optimizers),
                overwrites_over_replicas(optimizers),
            ):
                self._share = 1.0 if skips else 1.0 / self._context.replicas
                yield

    def train(self, shares: Sequence[Share]) -> StepOutput:
        """Make one update from the Shares of this replica, one of each batch."""
        import tensorflow as tf

        weights = self._weights(shares)
        if self._own_train_step is not None:
            output = self._own_train_step(shares, weights)
            self.shapes_vary = self._own_train_step.shapes_vary
            return output
        with self._metrics.deferred() as metric_updates:
            found = [self._loss_and_gradients(share, weight) for share, weight in zip(shares, weights, strict=True)]
            self._apply(gradients.add([gradient for _, gradient in found]))
            losses = [tf.cast(loss, tf.float32) for loss, _ in found]
            return StepOutput({"loss": mean_over_examples(losses, shares)}, metric_updates())

    def _weights(self, shares: Sequence[Share]) -> list[Tensor | None]:
        """Return the part that each Share has of this update's examples over all replicas; None if it has all."""
        import tensorflow as tf

        if self._context.replicas == 1 and len(shares) == 1:
            return [None]
        if any(share.total is None for share in shares):
            replica = tf.distribute.get_replica_context()
            own = tf.cast(tf.add_n([share.examples for share in shares]), tf.float32)
            total = replica.all_reduce(tf.distribute.ReduceOp.SUM, own)
        else:
            total = tf.cast(tf.add_n([share.total for share in shares]), tf.float32)
        return [tf.cast(share.examples, tf.float32) / total for share in shares]

    def test(self, share: Share) -> EvaluationOutput:
        """Evaluate the Share of this replica; updates the metrics."""
        import keras
        import tensorflow as tf

        if self._has_own_test_step:
            return test(self._model, self._context, self._metrics, share)
        x, y, weight = keras.utils.unpack_x_y_sample_weight(share.batch)
        count = tf.cast(share.examples, tf.float32)
        with self._metrics.deferred() as metric_updates:
            predicted = self._model(x, training=False) if self._has_training else self._model(x)
            with of_evaluated_share(share, self._context) as part, self._metrics.of_one_replica(count, part):
                _, told = self._loss(x, y, predicted, weight, part, training=False)
            with self._metrics.of_one_replica(count):
                self._metrics.update(x, y, predicted, weight)
            mean = tf.cast(told, tf.float32)
            found = {"loss": tf.math.multiply_no_nan(mean, count)}  # a replica without an example has no mean
            return EvaluationOutput(found, count, metric_updates())

    def _loss_and_gradients(self, share: Share, part: Tensor | None) -> tuple[Tensor, list[Gradient]]:
        """Return the loss of a Share and the gradients of its part of the whole; updates the metrics."""
        import keras
        import tensorflow as tf

        model = self._model
        x, y, weight = keras.utils.unpack_x_y_sample_weight(share.batch)
        with tf.GradientTape() as tape:
            predicted = model(x, training=True) if self._has_training else model(x)
            with of_share(share, part, self._context), self._metrics.of_one_replica(share.examples, part):
                loss, told = self._loss(x, y, predicted, weight, part, training=True)
            scaled = model.optimizer.scale_loss(loss if part is None else loss * tf.cast(part, loss.dtype))
        with self._metrics.of_one_replica(share.examples):  # a loss may be a metric
            self._metrics.update(x, y, predicted, weight)
        return told, tape.gradient(scaled, [variable.value for variable in model.trainable_variables])

    def _loss(
        self, x: Tensor, y: Tensor, predicted: Tensor, weight: Tensor | None, part: Tensor | None, *, training: bool
    ) -> tuple[Tensor, Tensor]:
        """Return the loss of `part` of a batch, and the number to report: the mean where each example has one.

        Such a loss adds up.
        """
        import tensorflow as tf

        extra: dict[str, Any] = {"training": training} if self._loss_has_training else {}
        loss = self._model.compute_loss(x=x, y=y, y_pred=predicted, sample_weight=weight, **extra)
        if not len(loss.shape):
            return loss, loss
        sums = whole(part)
        return loss if sums is None else loss * tf.cast(sums, loss.dtype), tf.reduce_mean(loss)

    def _apply(self, found: list[Gradient]) -> None:
        import tensorflow as tf

        optimizer = self._model.optimizer
        if all(gradient is None for gradient in found):
            raise UserError("no trainable variable of the model has a gradient; check its loss and trainable flags")
        if self._context.replicas > 1:
            self.shapes_vary = self.shapes_vary or gradients.have_unknown_rows(found)
            found = gradients.sum_over_replicas(found)
        if self._clip_norm is not None:
            limit = optimizer.scale_loss(tf.constant(self._clip_norm, tf.float32))  # as gradients are now
            found = gradients.clip(found, limit)
        if self._share != 1.0:
            found = gradients.scale(found, self._share)
        optimizer.apply(found, self._model.trainable_variables)
