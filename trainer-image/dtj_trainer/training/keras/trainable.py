"""A compiled Keras 3 model in the loop.

Each replica's loss is scaled by 1 / replicas and Keras' optimizers sum gradients, so the sum over replicas is the
gradient of the global batch's mean. Both are made here instead, once: the share, because Keras gives it to some losses
alone; the sum, so that clipping, also Keras' own `clipnorm`, sees the gradient of the global batch: Keras alone clips
each replica's share and so trains something else.
"""

import inspect
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from dtj_trainer.compat import keras as compat_keras
from dtj_trainer.compat import tensorflow as compat
from dtj_trainer.errors import PreflightFailed, UserError
from dtj_trainer.initialization import Session
from dtj_trainer.training.keras.learning_rate import rate_of, same_rate
from dtj_trainer.training.keras.loss import alone

BUILT_EARLY = (
    "the model was built before the strategy; call dtj.init() at the top of the program, "
    "or give dtj.fit a function that returns the model"
)


class _Replica(threading.local):
    """What is known while a step of one replica is traced; TensorFlow traces each replica in a thread of its own."""

    apart: list[Any] | None = None
    """In a step that may not write the metrics' accumulators: their values so far."""


class KerasModel:
    """A Trainee around a compiled model. `accumulate` batches make one update."""

    def __init__(self, model: Any, session: Session, *, clip_norm: float | None) -> None:
        self.model = model
        self.session = session
        self.clip_norm = clip_norm
        self._has_training = compat_keras.call_has_training(model)
        self._loss_has_training = "training" in inspect.signature(model.compute_loss).parameters
        self._readers: dict[str, Any] = {}
        self._share = 1.0
        self._replica = _Replica()
        self._collected: list[Any] | None = None
        """Under ParameterServer: the accumulators' values since the last reset, kept in this process."""
        self.objects: Mapping[str, Any] = {"model": model, "optimizer": model.optimizer, "random": counters(model)}

    # One update -------------------------------------------------------------------------------------------------------

    @contextmanager
    def tracing(self) -> Iterator[None]:
        with _summed_already(self.model.optimizer, self.session.replicas) as self._share:
            yield

    def names(self, _strategy: Any, _read: Any) -> tuple[str, ...]:
        return ("loss",)

    def step(self, batches: Any) -> Mapping[str, Any]:
        import tensorflow as tf

        gradients: list[Any] | None = None
        total = tf.constant(0.0)
        for batch in batches:
            loss, new = self._gradients(tf, batch)
            total += tf.cast(loss, tf.float32)
            gradients = new if gradients is None else [_add(tf, a, b) for a, b in zip(gradients, new, strict=True)]
        assert gradients is not None
        count = len(batches)
        if count > 1:
            gradients = [None if g is None else _scale(tf, g, 1.0 / count) for g in gradients]
        self._apply(tf, gradients)
        return {"loss": total / count}

    def step_apart(self, batches: Any) -> tuple[Mapping[str, Any], list[Any]]:
        with self._metrics_apart() as values:
            return self.step(batches), values()

    def count_updates(self, updates: int) -> None:
        optimizer = self.model.optimizer
        for each in (optimizer, getattr(optimizer, "inner_optimizer", None)):
            if each is not None:
                each.iterations.assign(updates)

    def _gradients(self, tf: Any, batch: Any) -> tuple[Any, list[Any]]:
        """Loss of a local batch and the gradients of its share."""
        import keras

        model = self.model
        x, y, weight = keras.utils.unpack_x_y_sample_weight(batch)
        with tf.GradientTape() as tape:
            predicted = model(x, training=True) if self._has_training else model(x)
            loss = self._loss(x, y, predicted, weight, training=True)
            scaled = model.optimizer.scale_loss(loss / self.session.replicas)
        self._update_metrics(x, y, predicted, weight)
        return loss, tape.gradient(scaled, [variable.value for variable in model.trainable_variables])

    def evaluate(self, batch: Any) -> tuple[Mapping[str, Any], Any]:
        """Summed loss and number of examples of a local batch; updates the metrics."""
        import keras
        import tensorflow as tf

        model = self.model
        x, y, weight = keras.utils.unpack_x_y_sample_weight(batch)
        predicted = model(x, training=False) if self._has_training else model(x)
        count = tf.cast(tf.shape(tf.nest.flatten(batch)[0])[0], tf.float32)
        with self._unless_empty(count):
            loss = self._loss(x, y, predicted, weight, training=False)
            self._update_metrics(x, y, predicted, weight)
        mean = tf.cast(loss, tf.float32)
        return {"loss": tf.math.multiply_no_nan(mean, count)}, count  # a replica without an example has no mean

    def _loss(self, x: Any, y: Any, predicted: Any, weight: Any, *, training: bool) -> Any:
        """The mean over a local batch. Losses of outputs are metrics, which Keras updates with it."""
        extra = {"training": training} if self._loss_has_training else {}
        with self._wherever_metrics_are(), alone(self.session.strategy):
            return self.model.compute_loss(x=x, y=y, y_pred=predicted, sample_weight=weight, **extra)

    def _apply(self, tf: Any, gradients: Sequence[Any]) -> None:
        variables = self.model.trainable_variables
        present = [gradient for gradient in gradients if gradient is not None]
        if not present:
            raise UserError("no trainable variable of the model has a gradient; check its loss and trainable flags")
        if self.session.replicas > 1:
            present = tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, present)
        if self.clip_norm is not None:
            limit = self.model.optimizer.scale_loss(tf.constant(self.clip_norm, tf.float32))  # as gradients are now
            norm = tf.linalg.global_norm([_each_row_once(tf, gradient) for gradient in present])
            present, _ = tf.clip_by_global_norm(present, limit, use_norm=norm)
        reduced = iter(present)
        whole = [None if g is None else next(reduced) for g in gradients]
        if self._share != 1.0:
            whole = [None if g is None else _scale(tf, g, self._share) for g in whole]
        self.model.optimizer.apply(whole, variables)

    def learning_rate(self) -> float | None:
        return rate_of(self.model.optimizer)

    def same_rate(self) -> AbstractContextManager[None]:
        return same_rate(self.model.optimizer)

    # Metrics ----------------------------------------------------------------------------------------------------------

    @contextmanager
    def _metrics_apart(self) -> Iterator[Callable[[], list[Any]]]:
        """Updates of metrics inside go into values of their own, from zero, which the yielded function returns."""
        import tensorflow as tf

        replica = self._replica
        replica.apart = [tf.zeros(v.shape, v.dtype) for v in self._accumulators()]
        try:
            yield lambda: list(replica.apart or ())
        finally:
            replica.apart = None

    def evaluate_apart(self, batch: Any) -> tuple[Mapping[str, Any], Any, list[Any]]:
        """As `evaluate`, but returns what the batch adds to the accumulators."""
        with self._metrics_apart() as values:
            sums, count = self.evaluate(batch)
            return sums, count, values()

    def accumulators(self) -> list[tuple[int, ...]]:
        return [tuple(variable.shape) for variable in self._accumulators()]

    def collect(self, accumulated: Sequence[Any], /) -> None:
        before = self._collected
        self._collected = (
            list(accumulated) if before is None else [a + b for a, b in zip(before, accumulated, strict=True)]
        )

    def _accumulators(self) -> list[Any]:
        return [variable for _, metric in self._result_names() for variable in metric.variables]

    @contextmanager
    def _wherever_metrics_are(self) -> Iterator[None]:
        """Updates of metrics inside go where this step keeps their accumulators."""
        replica = self._replica
        if replica.apart is None:
            yield
            return
        import keras

        variables = self._accumulators()
        regular = [v for v in self.model.trainable_variables if getattr(v, "regularizer", None) is not None]
        known = [*zip(variables, replica.apart, strict=True), *((v, v.value) for v in regular)]  # Keras asks for these
        with keras.StatelessScope(state_mapping=known) as scope:
            yield
        replica.apart = [scope.get_current_value(variable) for variable in variables]

    @contextmanager
    def _unless_empty(self, count: Any) -> Iterator[None]:
        """Updates of metrics inside are undone on a replica that has no example: the mean of none is no number."""
        import tensorflow as tf

        if self.session.replicas == 1:
            yield
            return
        replica, on_read = self._replica, tf.VariableSynchronization.ON_READ
        held = [variable.value for variable in self._accumulators()] if replica.apart is None else []
        own = [each for each in held if getattr(each, "synchronization", None) == on_read]
        before = replica.apart or [tf.identity(each) for each in own]
        yield
        kept = [tf.where(count > 0, new, old) for new, old in zip(replica.apart or own, before, strict=True)]
        if replica.apart is not None:
            replica.apart = kept
        for each, value in zip(own, kept, strict=False):
            each.assign(value)

    def _update_metrics(self, x: Any, y: Any, predicted: Any, weight: Any) -> None:
        model = self.model
        with self._wherever_metrics_are(), alone(self.session.strategy):  # a loss may be a metric
            if _overrides(model, "compute_metrics"):
                model.compute_metrics(x, y, predicted, weight)
                return
            for metric in self._tracked():
                if metric.name == "compile_metrics":
                    metric.update_state(y, predicted, weight)

    def _tracked(self) -> list[Any]:
        """The model's metrics but its own loss mean: the loop has that."""
        tracker = compat_keras.loss_tracker(self.model)
        return [metric for metric in self.model.metrics if metric is not tracker]

    def metrics(self) -> dict[str, Any]:
        return self._results(_sum_of_all)

    def metrics_here(self) -> dict[str, Any]:
        return self._results(_sum_here)

    def _results(self, added: Callable[[Any, Any], Any]) -> dict[str, Any]:
        import keras
        import numpy as np

        results: dict[str, Any] = {}
        collected = iter(self._collected or ())
        for name, metric in self._result_names():
            if self._collected is None:
                values = [np.asarray(value) for value in self._read(name, metric, added)]
            else:
                values = [np.asarray(next(collected), dtype=variable.dtype) for variable in metric.variables]
            with keras.StatelessScope(state_mapping=zip(metric.variables, values, strict=True)):
                result = metric.result()  # may be a variable
                results.update(_flat(result if isinstance(result, dict) else {name: result}))
        return results

    def _result_names(self) -> list[tuple[str, Any]]:
        return [(metric.name, metric) for metric in self._tracked() if metric.variables]

    def _read(self, name: str, metric: Any, added: Callable[[Any, Any], Any]) -> list[Any]:
        """A metric's accumulators, each `added` over replicas."""
        import tensorflow as tf

        reader = f"{name} {added.__name__}"
        if reader not in self._readers:
            strategy, variables = self.session.strategy, [variable.value for variable in metric.variables]

            @tf.function(autograph=False)
            def read() -> list[Any]:
                def local() -> list[Any]:
                    return [tf.convert_to_tensor(variable) for variable in variables]

                return [added(strategy, value) for value in strategy.run(local)]

            self._readers[reader] = read
        values: list[Any] = self._readers[reader]()
        return values

    def reset_metrics(self) -> None:
        self._collected = None
        for metric in self._tracked():
            for each in getattr(metric, "metrics", None) or [metric]:
                _reset(each)

    def finish(self) -> None:
        """What Keras does to a trained model: an optimizer that averages weights (`use_ema`) puts them in."""
        self.model.optimizer.finalize_variable_values(self.model.trainable_variables)

    # Moving statistics ------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Average the moving statistics of replicas: Keras 3 lets them drift apart and saves the chief's alone.

        The averages are linear in what each replica saw, so it does not matter how often this is done.
        """
        if self.session.replicas == 1:
            return
        import tensorflow as tf

        if "settle" not in self._readers:
            held = [v.value for v in self.model.non_trainable_variables if tf.as_dtype(v.dtype).is_floating]
            strategy = self.session.strategy

            @tf.function(autograph=False)
            def average() -> None:
                def local() -> None:
                    replica = tf.distribute.get_replica_context()
                    means = replica.all_reduce(tf.distribute.ReduceOp.MEAN, [tf.identity(v) for v in held])
                    for variable, mean in zip(held, means, strict=True):
                        variable.assign(mean)

                if held:
                    strategy.run(local)

            self._readers["settle"] = average
        self._readers["settle"]()


def _flat(results: Mapping[str, Any]) -> dict[str, Any]:
    """Numbers and arrays; several results of one metric are named by themselves alone, as Keras names them."""
    import numpy as np

    found: dict[str, Any] = {}
    for name, value in results.items():
        if isinstance(value, dict):
            found |= _flat(value)
        else:
            found[name] = float(value) if np.ndim(value) == 0 else np.asarray(value)
    return found


def _sum_of_all(strategy: Any, value: Any) -> Any:
    return strategy.reduce("SUM", value, axis=None)


def _sum_here(strategy: Any, value: Any) -> Any:
    import tensorflow as tf

    return tf.add_n(strategy.experimental_local_results(value))


def _reset(metric: Any) -> None:
    """Set a metric back; where that means zeros, in each replica by itself: to assign a variable of replicas waits
    for a collective.
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


def build(model: Any, spec: Any, session: Session) -> None:
    """Build the model, its metrics and its optimizer from the structure of a batch, without running an op."""
    import keras
    import tensorflow as tf

    if getattr(model, "optimizer", None) is None:
        raise UserError("the model is not compiled; call model.compile(optimizer=…, loss=…) before dtj.fit")
    if _overrides(model, "train_step"):
        raise UserError(
            f"{type(model).__name__} has a train_step of its own, which dtj.fit does not call; "
            "override compute_loss instead, or give the step to dtj.train"
        )
    _right_strategy(model, session)
    if session.asynchronous and session.choice.options.get("variablePartitioner"):
        raise PreflightFailed(
            "Keras 3 cannot train partitioned variables; remove strategy.variablePartitioner, "
            "or train tf.Variables with dtj.train"
        )
    if session.choice.type == "CentralStorage":
        _only_weights(model)
    if session.asynchronous:
        _tell_of_statistics(model)
    batch = tf.nest.map_structure(lambda s: keras.KerasTensor((None, *s.shape[1:]), dtype=s.dtype.name), spec)
    _build_from_outputs(model, batch)
    if not compat_keras.build_symbolically(model, batch) and not model.built:
        model(keras.utils.unpack_x_y_sample_weight(batch)[0])
    if not model.optimizer.built:
        model.optimizer.build(model.trainable_variables)


def check_evaluates(model: Any) -> None:
    """Refuse a model that would be evaluated in another way than it asks for."""
    if _overrides(model, "test_step"):
        raise UserError(
            f"{type(model).__name__} has a test_step of its own, which dtj.fit does not call; "
            "override compute_loss and compute_metrics instead, or give validation_step= to dtj.train"
        )


def _only_weights(model: Any) -> None:
    """Refuse what writes variables of its own in a step: CentralStorage has no rule how to join them."""
    if hasattr(model.optimizer, "inner_optimizer") or getattr(model.optimizer, "use_ema", False):
        raise PreflightFailed(
            "Keras 3 cannot scale the loss for float16, nor average weights (use_ema), under CentralStorage; "
            "use bfloat16 and an optimizer without averages, or Mirrored"
        )
    for variable in model.non_trainable_variables:
        raise PreflightFailed(
            f"Keras 3 cannot train a layer that writes {variable.path!r} in each step under CentralStorage "
            "(as Dropout and BatchNormalization do); use Mirrored, or leave the layer out"
        )


def _tell_of_statistics(model: Any) -> None:
    """Moving statistics are read, changed and written by several workers at once: one of two updates may be lost, and
    what is left is a moving average all the same, of fewer batches.
    """
    import tensorflow as tf

    for variable in model.non_trainable_variables:
        if tf.as_dtype(variable.dtype).is_floating:
            print(  # noqa: T201 - the console line
                f"dtj: workers write {variable.path!r} without waiting for one another; "
                "such statistics follow the data and lose some updates",
                flush=True,
            )
            return


def _build_from_outputs(model: Any, batch: Any) -> None:
    """Build loss and metrics of a model with one known output, which spares Keras three traces of the model.

    Keras does the rest, and all of it for metrics that make their variables only when they see values.
    """
    import keras

    loss, metrics = compat_keras.compiled_loss_and_metrics(model)
    outputs = getattr(model, "outputs", None) if model.built else None
    if not outputs or len(outputs) != 1 or metrics is None or loss is None:
        return
    _, y, weight = keras.utils.unpack_x_y_sample_weight(batch)
    if weight is not None or not isinstance(y, keras.KerasTensor):
        return
    metrics.build(y, outputs[0])
    loss.build(y, outputs[0])
    metrics.built = all(metric.variables for metric in metrics.metrics)


def _right_strategy(model: Any, session: Session) -> None:
    """Refuse a model whose variables belong to no strategy, where there is more than one device or process."""
    import tensorflow as tf

    if session.asynchronous:
        elsewhere = [v for v in model.variables if "/job:ps" not in str(getattr(v.value, "device", ""))]
        if elsewhere:
            raise UserError(BUILT_EARLY)
    if session.replicas == 1:
        return
    kinds: Any = tf.distribute.DistributedValues
    if session.choice.type == "CentralStorage":
        kinds = compat.central_storage_variable()
    for variable in model.variables:
        if not isinstance(variable.value, kinds):
            raise UserError(BUILT_EARLY)


def counters(model: Any) -> list[Any]:
    """Whole-number variables of the model: Keras does not show its seed generators' states to tf.train.Checkpoint."""
    import tensorflow as tf

    return [v.value for v in model.non_trainable_variables if not tf.as_dtype(v.dtype).is_floating]


@contextmanager
def _summed_already(optimizer: Any, replicas: int) -> Iterator[float]:
    """Keep Keras from summing gradients again; yields the factor to apply where that is not possible."""
    if replicas == 1:
        yield 1.0
        return
    with compat_keras.without_gradient_sum(optimizer) as skips:
        yield 1.0 if skips else 1.0 / replicas


def _overrides(model: Any, method: str) -> bool:
    import keras

    own = getattr(type(model), method, None)
    return own is not None and own.__module__.split(".")[0] != keras.__name__


def _add(tf: Any, a: Any, b: Any) -> Any:
    if a is None or b is None:
        return b if a is None else a
    if isinstance(a, tf.IndexedSlices) and isinstance(b, tf.IndexedSlices):  # as of one larger batch
        values, indices = tf.concat([a.values, b.values], 0), tf.concat([a.indices, b.indices], 0)
        return tf.IndexedSlices(values, indices, a.dense_shape)
    return tf.convert_to_tensor(a) + tf.convert_to_tensor(b)


def _each_row_once(tf: Any, gradient: Any) -> Any:
    """The gradient's numbers. Of an embedding it has a row for each use, and those of one entry count together."""
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    entries, places = tf.unique(gradient.indices)
    return tf.math.unsorted_segment_sum(gradient.values, places, tf.size(entries))


def _scale(tf: Any, gradient: Any, factor: float) -> Any:
    if isinstance(gradient, tf.IndexedSlices):
        values = gradient.values * tf.cast(factor, gradient.dtype)
        return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
    return gradient * tf.cast(factor, gradient.dtype)
