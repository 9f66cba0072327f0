"""Builds the model that the user gave: creates it, sets mixed precision, and creates its variables."""

from collections.abc import Callable
from typing import Any

from dtj_trainer.compat import keras as compat
from dtj_trainer.compat.types import Model, Structure
from dtj_trainer.context import TrainContext
from dtj_trainer.errors import PreflightFailed, UserError
from dtj_trainer.training.keras.checks import check_trains, overrides, runs_eagerly
from dtj_trainer.training.keras.optimizers import all_optimizers
from dtj_trainer.training.keras.replication import release, replicate


def make_model(model: Any | Callable[[], Any], mixed_precision: str | None) -> Model:
    """Return a model of Keras 3, perhaps the one that a function returns, with `mixed_precision`.

    Variables stay in 32 bits under Keras' policies, so a model that is built can change to one.

    Raises:
        PreflightFailed: an unknown `mixed_precision`.
        UserError: it is no model of Keras 3.
    """
    compat.check()
    if mixed_precision not in {None, "float16", "bfloat16"}:
        raise PreflightFailed(f"mixed_precision {mixed_precision!r} is unknown; use 'float16', 'bfloat16' or None")
    _refuse_keras_2(model)
    if hasattr(model, "compute_loss"):
        given: Any = model
        if mixed_precision is not None:
            _convert(given, mixed_precision)
        return given
    if mixed_precision is not None:
        import keras

        keras.config.set_dtype_policy(f"mixed_{mixed_precision}")
    if not callable(model):
        raise UserError(f"dtj.fit got {type(model).__name__} as model; give a compiled Keras model or a function")
    made: Model = model()
    _refuse_keras_2(made)
    if not hasattr(made, "compute_loss"):
        raise UserError(f"the model function returned {type(made).__name__}; it has to return a compiled Keras 3 model")
    return made


def build(model: Model, spec: Structure, context: TrainContext) -> None:
    """Build the model, its metrics and its optimizer from the structure of a batch, without running an op.

    Raises:
        UserError, PreflightFailed: it would not be trained as its code says.
    """
    import keras
    import tensorflow as tf

    check_trains(model, context)
    if context.workers > 1:
        compat.remember_optimizer_attributes()
    if runs_eagerly(model):
        _build_eagerly(model, spec)
        return
    if overrides(model, "train_step") and not _is_built(model):
        _build_by_own_step(model, spec, context)
        return
    replicate(model, context)
    batch = tf.nest.map_structure(lambda s: keras.KerasTensor((None, *s.shape[1:]), dtype=s.dtype.name), spec)
    _build_from_outputs(model, batch)
    if not compat.build_symbolically(model, batch) and not model.built:
        model(keras.utils.unpack_x_y_sample_weight(batch)[0])
    if not model.optimizer.built:
        model.optimizer.build(model.trainable_variables)


def _build_eagerly(model: Model, spec: Structure) -> None:
    """Build a model whose code may need values, from an example of zeros; its loss and metrics are built by a step."""
    import keras
    import tensorflow as tf

    if not all(layer.built for layer in compat.all_layers(model)):
        if overrides(model, "train_step"):
            return  # which makes the variables that it uses
        x = keras.utils.unpack_x_y_sample_weight(spec)[0]
        model(tf.nest.map_structure(lambda each: tf.zeros([1, *(n or 1 for n in each.shape[1:])], each.dtype), x))
    if not model.optimizer.built:
        model.optimizer.build(model.trainable_variables)


def _is_built(model: Model) -> bool:
    """Return whether a model with a step of its own has all its variables."""
    return model.built and all(optimizer.built for optimizer in all_optimizers(model))


def _build_by_own_step(model: Model, spec: Structure, context: TrainContext) -> None:
    """Let the model's own `train_step` make the variables that it uses: trace it once under no strategy, as Keras does.

    Several replicas could not make variables in a step.
    """
    import tensorflow as tf

    release(model, context)

    @tf.function(autograph=False)
    def once(batch: Structure) -> None:
        if context.replicas == 1:
            context.strategy.run(model.train_step, args=(batch,))  # type: ignore[attr-defined]
        else:
            model.train_step(batch)  # type: ignore[attr-defined]

    once.get_concrete_function(spec)
    replicate(model, context)


def _convert(model: Model, kind: str) -> None:
    """Let the layers of a compiled model compute in `kind`, except those with their own dtype."""
    import keras

    for layer in compat.all_layers(model):
        if layer.dtype_policy.name == "float32" and not compat.has_own_dtype(layer):
            layer.dtype_policy = f"mixed_{kind}"
    optimizer = model.optimizer
    if kind == "float16" and optimizer is not None and not hasattr(optimizer, "inner_optimizer"):
        model.optimizer = keras.optimizers.LossScaleOptimizer(optimizer, name="loss_scale_optimizer")  # as compile does


def _refuse_keras_2(model: Any) -> None:
    if any(kind.__module__.partition(".")[0] == "tf_keras" for kind in type(model).__mro__):
        raise UserError(
            f"dtj.fit trains models of Keras 3, and {type(model).__name__} is one of tf_keras (Keras 2); build it with "
            "`import keras`, train it with dtj.train, or run its own fit in a script under dtj-run"
        )


def _build_from_outputs(model: Model, batch: Structure) -> None:
    """Build loss and metrics of a model with one known output, which spares Keras three traces of the model.

    Keras does the rest, and all of it for metrics that make their variables only when they see values.
    """
    import keras

    loss, metrics = compat.compiled_loss_and_metrics(model)
    outputs = getattr(model, "outputs", None) if model.built else None
    if not outputs or len(outputs) != 1 or metrics is None or loss is None:
        return
    _, y, weight = keras.utils.unpack_x_y_sample_weight(batch)
    if weight is not None or not isinstance(y, keras.KerasTensor):
        return
    metrics.build(y, outputs[0])
    loss.build(y, outputs[0])
    metrics.built = all(metric.variables for metric in metrics.metrics)
