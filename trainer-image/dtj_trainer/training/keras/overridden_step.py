"""The `train_step` and `test_step` that a model's class overrides, called in replica context on a replica's examples.

They are written for one process: inside, losses are not divided by the replicas, and an optimizer applies gradients
that count by the replica's share of the examples, summed over all replicas. So the update is that of one process, also
where the gradients are clipped.
"""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from dtj_trainer.compat import keras as compat
from dtj_trainer.compat.types import Model, Tensor
from dtj_trainer.context import TrainContext
from dtj_trainer.data.adapters.batch_split import Share
from dtj_trainer.errors import UserError
from dtj_trainer.training.keras import gradients
from dtj_trainer.training.keras.gradients import Gradient
from dtj_trainer.training.keras.loss import of_evaluated_share, of_share
from dtj_trainer.training.keras.metrics import ModelMetrics
from dtj_trainer.training.keras.optimizers import all_optimizers
from dtj_trainer.training.steps.trainable import EvaluationOutput, StepOutput


class OverriddenTrainStep:
    """One update by the model's own `train_step`."""

    def __init__(self, model: Model, context: TrainContext, metrics: ModelMetrics, *, clip_norm: float | None) -> None:
        self._model = model
        self._context = context
        self._metrics = metrics
        self._clip_norm = clip_norm
        self._replica = _Replica()
        self.shapes_vary = False

    @contextmanager
    def tracing(self) -> Iterator[None]:
        """Return the context in which an update is traced: what optimizers apply is summed first."""
        optimizers = all_optimizers(self._model)
        calls = {id(each): partial(self._apply, each) for each in optimizers}
        with compat.with_apply(optimizers, calls):
            yield

    def __call__(self, shares: Sequence[Share], weights: Sequence[Tensor | None]) -> StepOutput:
        """Make one update from the Shares of this replica, which are these parts of all examples."""
        sums = self._replica.sums = _SummedGradients(self._context, len(shares), self._clip_norm)
        logs: list[Mapping[str, Tensor]] = []
        for number, (share, weight) in enumerate(zip(shares, weights, strict=True)):
            sums.begin_batch(number, weight)
            own = of_share(share, weight, self._context, adds_up=True)
            with own, _counted(self._metrics, share, weight, self._context):
                logs.append(self._call(share))
        self.shapes_vary = self.shapes_vary or sums.shapes_vary
        return StepOutput(_mean_logs(logs, shares))

    def _apply(self, optimizer: Any, given: Any, *arguments: Any, **options: Any) -> Any:
        sums = self._replica.sums
        if sums is None:
            return type(optimizer).apply(optimizer, given, *arguments, **options)
        return sums.apply(optimizer, given, *arguments, **options)

    def _call(self, share: Share) -> Mapping[str, Tensor]:
        logs = self._model.train_step(share.batch)  # type: ignore[attr-defined]
        return _scalars(logs, type(self._model).__name__, "train_step")


def test(model: Model, context: TrainContext, metrics: ModelMetrics, share: Share) -> EvaluationOutput:
    """Evaluate the Share of this replica by the model's own `test_step`."""
    import tensorflow as tf

    count = tf.cast(share.examples, tf.float32)
    with of_evaluated_share(share, context) as part, _counted(metrics, share, part, context):
        logs = model.test_step(share.batch)  # type: ignore[attr-defined]
    means = _scalars(logs, type(model).__name__, "test_step")
    return EvaluationOutput({name: tf.math.multiply_no_nan(mean, count) for name, mean in means.items()}, count)


class _Replica(threading.local):
    """The update that is traced for one replica; TensorFlow traces each replica in its own thread."""

    sums: "_SummedGradients | None" = None


class _SummedGradients:
    """The gradients of the batches of one update, weighted by their parts of the examples and summed over replicas."""

    def __init__(self, context: TrainContext, batches: int, clip_norm: float | None) -> None:
        self._context = context
        self._batches = batches
        self._clip_norm = clip_norm
        self._number = 0
        self._weight: Tensor | None = None
        self._held: dict[int, list[list[Gradient]]] = {}
        """Of each optimizer: the gradients of the batches so far."""
        self._calls: dict[int, int] = {}
        self.shapes_vary = False
        """Whether an embedding's gradient may have another number of rows in another step."""

    def begin_batch(self, number: int, weight: Tensor | None) -> None:
        """Begin with the next batch, which has this part of all examples."""
        self._number, self._weight = number, weight
        self._calls = {}

    def apply(self, optimizer: Any, given: Any, variables: Any = None, **options: Any) -> Any:
        """Apply gradients, once those of all batches and replicas are there."""
        pairs = list(given)
        calls = self._calls[id(optimizer)] = self._calls.get(id(optimizer), 0) + 1
        if self._batches > 1 and calls > 1:
            raise UserError(
                "accumulate= adds up the gradients of batches for one update, and the model's train_step applies "
                "gradients several times; leave accumulate out"
            )
        own = pairs if self._weight is None else gradients.scale(pairs, self._weight)
        if self._batches > 1:
            held = self._held.setdefault(id(optimizer), [])
            held.append(own)
            if self._number + 1 < self._batches:
                return None
            own = gradients.add(held)
        if self._context.replicas > 1:
            self.shapes_vary = self.shapes_vary or gradients.have_unknown_rows(own)
            own = gradients.sum_over_replicas(own)
        if self._clip_norm is not None:
            own = gradients.clip(own, optimizer.scale_loss(self._clip_norm))
        return type(optimizer).apply(optimizer, own, variables, **options)


@contextmanager
def _counted(metrics: ModelMetrics, share: Share, part: Tensor | None, context: TrainContext) -> Iterator[None]:
    """Count what is inside written to metrics for this replica's `part` of a batch; not at all without an example."""
    import tensorflow as tf

    if context.replicas == 1 and part is None:
        yield
        return
    accumulators = [variable.value for variable in metrics.accumulators()]
    before = [tf.identity(accumulator) for accumulator in accumulators]
    yield
    after = [tf.identity(accumulator) for accumulator in accumulators]
    if part is not None:
        after = metrics.count_outputs_once(before, after, part)
    for accumulator, old, new in zip(accumulators, before, after, strict=True):
        accumulator.assign(tf.where(tf.cast(share.examples, tf.float32) > 0, new, old))


def _mean_logs(logs: Sequence[Mapping[str, Tensor]], shares: Sequence[Share]) -> Mapping[str, Tensor]:
    """Return the means over the examples of all batches."""
    return {name: mean_over_examples([each[name] for each in logs], shares) for name in logs[0]}


def mean_over_examples(means: Sequence[Tensor], shares: Sequence[Share]) -> Tensor:
    """Return the mean over the examples of all Shares, from the mean of each."""
    import tensorflow as tf

    if len(means) == 1:
        return means[0]
    counts = [tf.cast(share.examples, tf.float32) for share in shares]
    sums = [tf.math.multiply_no_nan(mean, count) for mean, count in zip(means, counts, strict=True)]
    return tf.math.divide_no_nan(tf.add_n(sums), tf.add_n(counts))


def _scalars(logs: Any, kind: str, method: str) -> Mapping[str, Tensor]:
    """Return what a step returned, by name, one number each: the mean of an array, as in the job's status."""
    import tensorflow as tf

    if not isinstance(logs, Mapping):
        raise UserError(
            f"{method} of {kind} returned {type(logs).__name__}; it has to return a dict of metrics, as in Keras"
        )
    found: dict[str, Tensor] = {}
    for name, value in logs.items():
        if isinstance(value, Mapping):
            found |= _scalars(value, kind, method)
        else:
            found[name] = tf.reduce_mean(tf.cast(tf.convert_to_tensor(value), tf.float32))
    return found
