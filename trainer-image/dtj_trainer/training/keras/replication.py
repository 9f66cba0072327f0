"""A model's variables in two forms: replicas of a strategy while it trains, and plain ones of this process otherwise.

TensorFlow makes a variable for a strategy or for none, and everything that Keras does with a model of a strategy of
several processes (`evaluate`, `predict`, reading a metric) waits for all of them. So a training ends, and callbacks of
the user run, with plain variables: then the model is as after `model.fit` in one process, on each worker by itself.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from dtj_trainer.compat import keras as compat
from dtj_trainer.compat import tensorflow as compat_tensorflow
from dtj_trainer.compat.types import Model, Tensor
from dtj_trainer.context import TrainContext
from dtj_trainer.training.keras.optimizers import all_optimizers


def is_replicated(variable: Any) -> bool:
    """Return whether a Keras variable is of a strategy with replicas."""
    import tensorflow as tf

    value = compat.raw_value(variable)
    return isinstance(value, tf.distribute.DistributedValues | compat_tensorflow.central_storage_variable())


def replicate(model: Model, context: TrainContext) -> None:
    """Make replicas of the model's plain variables, under the strategy, which becomes the default one again."""
    import tensorflow as tf

    if not context.mirrors:
        return
    if not tf.distribute.has_strategy():
        tf.distribute.experimental_set_strategy(context.strategy)
    plain = [variable for variable in _all_variables(model) if not is_replicated(variable)]
    _renew(model, plain)
    compat.leave_strategy(model)


def release(model: Model, context: TrainContext) -> None:
    """Make the model's variables plain ones of this process, with the values of its first replica.

    The strategy is no longer the default one: what the program makes and computes from now on is of this process alone.
    """
    import tensorflow as tf

    if not context.mirrors:
        return
    tf.distribute.experimental_set_strategy(None)
    _renew(model, [variable for variable in _all_variables(model) if is_replicated(variable)])
    compat.leave_strategy(model)
    if not context.strategy_released:
        compat.leave_strategy_of_all(context.strategy)
    context.strategy_released = True


class PlainCopies:
    """Plain copies of the weights, statistics and metrics of a model, and of the learning rates and step counts of its
    optimizers, for the time of a callback.
    """

    def __init__(self, model: Model, context: TrainContext) -> None:
        self._model = model
        self._context = context
        self._plain: dict[int, Any] = {}

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Give the model plain variables inside; what is changed in them is then changed in all replicas."""
        import tensorflow as tf

        strategy = self._context.strategy
        variables = [variable for variable in _seen_by_callbacks(self._model) if is_replicated(variable)]
        replicated = [compat.raw_value(variable) for variable in variables]
        before = [_first(value) for value in replicated]
        tf.distribute.experimental_set_strategy(None)
        self._use_plain(variables, before)
        try:
            yield
        finally:
            after = [tf.identity(compat.raw_value(variable)) for variable in variables]
            for variable, value in zip(variables, replicated, strict=True):
                compat.set_raw_value(variable, value)
            tf.distribute.experimental_set_strategy(strategy)
            for value, new in zip(replicated, after, strict=True):
                _assign(value, new)

    def _use_plain(self, variables: Sequence[Any], values: Sequence[Tensor]) -> None:
        for variable, value in zip(variables, values, strict=True):
            held = self._plain.get(id(variable))
            if held is None:
                compat.renew_value(variable, value)
                self._plain[id(variable)] = compat.raw_value(variable)
            else:
                held.assign(value)
                compat.set_raw_value(variable, held)


def _renew(model: Model, variables: Sequence[Any]) -> None:
    """Make new values for variables under the strategy that is the default one now, or under none."""
    with compat.rekeyed(all_optimizers(model)):
        for variable in variables:
            compat.renew_value(variable, _first(compat.raw_value(variable)))


def _model_variables(model: Model) -> list[Any]:
    """Return the variables of the model and of its metrics, each once."""
    found = [*model.variables, *(variable for metric in model.metrics for variable in metric.variables)]
    return list({id(variable): variable for variable in found}.values())


def _seen_by_callbacks(model: Model) -> list[Any]:
    """Return the same, and the scalars of its optimizers: programs write `float(optimizer.learning_rate)`."""
    scalars = (each for optimizer in all_optimizers(model) for each in optimizer.variables if not len(each.shape))
    return list({id(variable): variable for variable in (*_model_variables(model), *scalars)}.values())


def _all_variables(model: Model) -> list[Any]:
    """Return the same, and those of its optimizers."""
    found = [*_model_variables(model), *(v for optimizer in all_optimizers(model) for v in optimizer.variables)]
    return list({id(variable): variable for variable in found}.values())


def _first(value: Any) -> Tensor:
    """Return the value on the first replica of this process."""
    import tensorflow as tf

    return tf.identity(value.values[0] if hasattr(value, "values") else value)


def _assign(value: Any, new: Tensor) -> None:
    """Assign to every replica of this process, without waiting for other processes."""
    for part in value.values if hasattr(value, "values") else (value,):
        part.assign(new)
