"""Checks of a model: what a strategy cannot train correctly is refused with one sentence."""

from typing import Any

from dtj_trainer.compat import keras as compat_keras
from dtj_trainer.compat.types import KerasVariable, Model
from dtj_trainer.context import TrainContext
from dtj_trainer.errors import PreflightFailed, UserError
from dtj_trainer.training.keras.replication import is_replicated
from dtj_trainer.training.keras.statistics import moving_statistics

BUILT_EARLY = (
    "the model was built before the strategy; call dtj.init() at the top of the program, "
    "or give dtj.fit a function that returns the model"
)


def check_trains(model: Model, context: TrainContext) -> None:
    """Refuse a model that would not be trained, or not as its code says.

    Raises:
        UserError: it is not compiled, or was built before the strategy.
        PreflightFailed: the strategy does not support it.
    """
    if getattr(model, "optimizer", None) is None:
        raise UserError("the model is not compiled; call model.compile(optimizer=…, loss=…) before dtj.fit")
    _check_compiled(model, context)
    _check_accumulation(model, context)
    if context.asynchronous and context.choice.options.get("variablePartitioner"):  # their parts are on no one device
        raise PreflightFailed(
            "Keras 3 cannot train partitioned variables; remove strategy.variablePartitioner, "
            "or train tf.Variables with dtj.train"
        )
    _check_variables(model, context)
    if context.choice.type == "CentralStorage":
        _check_writes_weights_only(model)
    if context.asynchronous:
        _warn_about_statistics(model)


def compiles_with_xla(model: Model) -> bool:
    """Return whether `compile` was given jit_compile=True; "auto" means no here."""
    config: Any = getattr(model, "get_compile_config", dict)()
    return bool(config) and config.get("jit_compile") is True


def runs_eagerly(model: Model) -> bool:
    """Return whether `compile` was given run_eagerly=True."""
    return bool(getattr(model, "run_eagerly", False))


def _check_compiled(model: Model, context: TrainContext) -> None:
    """Refuse arguments of `compile` that do not act under the strategy."""
    if runs_eagerly(model) and (context.replicas > 1 or context.choice.type in {"ParameterServer", "TPU"}):
        raise PreflightFailed(
            f"the model was compiled with run_eagerly=True, which works on one device alone, and not under "
            f"{context.choice.type} with several replicas or servers; remove it, or debug with one worker"
        )
    if compiles_with_xla(model) and (context.replicas > 1 or context.asynchronous):
        raise PreflightFailed(
            f"the model was compiled with jit_compile=True, which does not work under {context.choice.type} with "
            "several replicas or servers; remove it"
        )


def _check_accumulation(model: Model, context: TrainContext) -> None:
    """Refuse gradients that the optimizer accumulates where that does not work on several replicas."""
    optimizer: Any = model.optimizer
    inner = getattr(optimizer, "inner_optimizer", None)
    steps = [getattr(each, "gradient_accumulation_steps", None) for each in (optimizer, inner)]
    if context.replicas == 1 or not any(steps):
        return
    if context.choice.type not in {"Mirrored", "MultiWorkerMirrored"}:
        reason = f"under {context.choice.type} with several replicas"
    elif inner is not None:
        reason = "with several replicas in a LossScaleOptimizer"
    elif optimizer.use_ema and optimizer.ema_overwrite_frequency:
        reason = "with several replicas beside ema_overwrite_frequency"
    else:
        return
    raise PreflightFailed(
        f"the optimizer's gradient_accumulation_steps do not work {reason}; remove them, and give dtj.fit accumulate="
    )


def overrides(model: Model, method: str) -> bool:
    """Return whether the model's class overrides a method of Keras' models."""
    import keras

    own = getattr(type(model), method, None)
    return own is not None and own.__module__.split(".")[0] != keras.__name__


def _check_variables(model: Model, context: TrainContext) -> None:
    """Refuse a model whose variables belong to no strategy, where there is more than one device or process."""
    if context.asynchronous:
        elsewhere = [v for v in model.variables if "/job:ps" not in str(getattr(v.value, "device", ""))]
        if elsewhere:
            raise UserError(BUILT_EARLY)
    if context.replicas > 1 and not context.strategy_released and not all(map(is_replicated, model.variables)):
        raise UserError(BUILT_EARLY)


def _check_writes_weights_only(model: Model) -> None:
    """Refuse a model that writes other variables in a step: CentralStorage cannot aggregate them."""
    if hasattr(model.optimizer, "inner_optimizer") or getattr(model.optimizer, "use_ema", False):
        raise PreflightFailed(
            "Keras 3 cannot scale the loss for float16, nor average weights (use_ema), under CentralStorage; "
            "use bfloat16 and an optimizer without averages, or Mirrored"
        )
    for variable in [*moving_statistics(model), *_used_seeds(model)]:
        raise PreflightFailed(
            f"Keras 3 cannot train a layer that writes {variable.path!r} in each step under CentralStorage "
            "(as Dropout and BatchNormalization do); use Mirrored, or leave the layer out"
        )


def _used_seeds(model: Model) -> list[KerasVariable]:
    """Return the states of seed generators that a step writes: those of layers that drop something."""
    layers = [layer for layer in compat_keras.all_layers(model) if getattr(layer, "seed_generator", None) is not None]
    rates = [
        (layer, [getattr(layer, name, 0) for name in ("rate", "dropout", "recurrent_dropout")]) for layer in layers
    ]
    return [layer.seed_generator.state for layer, found in rates if any(found)]


def _warn_about_statistics(model: Model) -> None:
    """Warn that several workers write moving statistics at once.

    One of two updates may be lost; the result is still a moving average, of fewer batches.
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
