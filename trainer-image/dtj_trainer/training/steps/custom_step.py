"""The Trainable of `dtj.train`: a custom step over a tf.Module or a dict of trackables."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from dtj_trainer.compat.types import Array, MetricValues, Tensor
from dtj_trainer.context import TrainContext
from dtj_trainer.data.adapters.batch_split import Share
from dtj_trainer.errors import UserError
from dtj_trainer.training.keras.learning_rate import keep_learning_rate, rate_of
from dtj_trainer.training.keras.statistics import counters
from dtj_trainer.training.steps.trainable import EvaluationOutput, StepOutput

UNBUILT = (
    "a Keras model in `state` makes its variables in the first step, when a checkpoint is restored already; "
    "build it with the state: model.build(shape), or call it once on a batch"
)


class CustomStep:
    """A Trainable around `step(state, batch) -> {"loss": scalar, …}`; the step reduces its gradients itself."""

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
        objects = dict(state) if isinstance(state, Mapping) else {"state_module": state}
        self.objects: Mapping[str, Any] = {**objects, "keras_seeds": _seeds(objects)}
        iterations = getattr(self.objects.get("optimizer"), "iterations", None)
        self._updates_before = 0 if iterations is None else int(iterations.numpy())
        """The updates of earlier trainings by this optimizer."""

    reports_last_step = one_step_per_call = runs_eagerly = False

    @contextmanager
    def tracing(self) -> Iterator[None]:
        yield

    def output_spec(self, update: Callable[[], StepOutput]) -> StepOutput:
        """Trace the step once, outside the loop, to find out what it returns."""
        import tensorflow as tf

        found: list[str] = []

        @tf.function(autograph=False)
        def once() -> None:
            found.extend(update().scalars)

        layers = _layers(self.objects)
        before = sum(len(layer.weights) for layer in layers)
        try:
            once.get_concrete_function()
        finally:  # of several replicas the trace itself fails
            if sum(len(layer.weights) for layer in layers) > before:
                raise UserError(UNBUILT)
        return StepOutput({name: tf.TensorSpec([], tf.float64) for name in found})

    def train_step(self, shares: Sequence[Share]) -> StepOutput:
        batches = tuple(share.batch for share in shares)
        returned = self._step(self._state, batches[0] if self._accumulate == 1 else batches)
        return StepOutput(_scalars(returned, "train step"))

    def test_step(self, share: Share) -> EvaluationOutput:
        import tensorflow as tf

        assert self._validation_step is not None
        count = tf.cast(share.examples, tf.float64)
        means = _scalars(self._validation_step(self._state, share.batch), "validation step")
        sums = {name: tf.math.multiply_no_nan(tf.cast(mean, tf.float64), count) for name, mean in means.items()}
        return EvaluationOutput(sums, count)

    def add_metric_updates(self, _updates: Sequence[Array], /) -> None:
        return

    def count_updates(self, updates: int) -> None:
        optimizer = self.objects.get("optimizer")
        if optimizer is not None and hasattr(optimizer, "iterations"):
            optimizer.iterations.assign(self._updates_before + updates)

    def metrics(self, *, evaluated: bool = False) -> MetricValues:
        del evaluated
        return {}

    def local_metrics(self, *, evaluated: bool = False) -> MetricValues:
        del evaluated
        return {}

    def finish(self) -> None:
        """Do nothing: the user owns the state."""

    def reset_metrics(self) -> None:
        return

    def sync_statistics(self) -> None:
        return

    def learning_rate(self) -> float | None:
        return rate_of(self.objects.get("optimizer"))

    def keep_learning_rate(self) -> AbstractContextManager[None]:
        return keep_learning_rate(self.objects.get("optimizer"))


def build(state: Any, context: TrainContext) -> None:
    """Build a Keras optimizer for the model beside it: in a step, several replicas cannot."""
    import keras

    parts = list((state if isinstance(state, Mapping) else getattr(state, "__dict__", {})).values())
    optimizers = [part for part in parts if isinstance(part, keras.optimizers.Optimizer)]
    models = [part for part in parts if isinstance(part, keras.layers.Layer) and part.trainable_variables]
    if context.replicas == 1 or not models or all(optimizer.built for optimizer in optimizers):
        return
    if len(optimizers) > 1 or len(models) > 1:
        raise UserError(
            "several replicas cannot build an optimizer in their first step; build each of them with the state: "
            "optimizer.build(model.trainable_variables)"
        )
    optimizers[0].build(models[0].trainable_variables)


def _layers(objects: Mapping[str, Any]) -> list[Any]:
    import keras
    import tensorflow as tf

    try:
        checkpoint = tf.train.Checkpoint(**objects)  # held: a view does not
    except ValueError:  # it holds what no checkpoint can, and is trained without
        return []
    found = tf.train.TrackableView(checkpoint).descendants()
    return [each for each in found if isinstance(each, keras.layers.Layer)]


def _seeds(objects: Mapping[str, Any]) -> list[Any]:
    """Return the states of Keras' seed generators in all layers, each once."""
    return list({id(counter): counter for layer in _layers(objects) for counter in counters(layer)}.values())


def _scalars(returned: Any, what: str) -> Mapping[str, Tensor]:
    """Return the results of a step as tensors of this replica: a plain number would count for all replicas."""
    import tensorflow as tf

    returned = {} if returned is None else returned
    if not isinstance(returned, Mapping):
        raise UserError(f"the {what} returned {type(returned).__name__}; it has to return a dict of scalars")
    values = {name: tf.convert_to_tensor(value) for name, value in returned.items()}
    for name, value in values.items():
        if value.shape.rank:
            raise UserError(f"the {what} returned {name!r} of shape {tuple(value.shape)}; reduce it to a scalar")
    return values
