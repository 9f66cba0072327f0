"""A model's variables in two forms: replicas of a strategy while it trains, and plain ones of this process otherwise.

TensorFlow makes a variable for a strategy or for none, and everything that Keras does with a model of a strategy of
several processes (`evaluate`, `predict`, reading a metric) waits for all of them. So a training ends, and callbacks of
the user run, with plain variables: then the model is as after `model.fit` in one process, on each worker by itself.

Each variable keeps both: functions that a program has compiled with the plain one, and other models that share it, read
what was trained since. Of one that was made under the strategy the first replica is the plain variable.
"""

import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from dtj_trainer.compat import keras as compat
from dtj_trainer.compat import tensorflow as compat_tensorflow
from dtj_trainer.compat.types import Model
from dtj_trainer.context import TrainContext
from dtj_trainer.strategy.initial_values import send
from dtj_trainer.training.keras.optimizers import all_optimizers


@dataclass(frozen=True, slots=True)
class _Forms:
    """The two variables of TensorFlow that one of Keras changes between."""

    plain: Any
    replicas: Any


_forms: dict[int, _Forms] = {}
"""By the id of the Keras variable, for as long as it exists."""


def is_replicated(variable: Any) -> bool:
    """Return whether a Keras variable is of a strategy with replicas."""
    import tensorflow as tf

    value = compat.raw_value(variable)
    return isinstance(value, tf.distribute.DistributedValues | compat_tensorflow.central_storage_variable())


def replicate(model: Model, context: TrainContext) -> None:
    """Give the model replicas of its plain variables, under the strategy, which becomes the default one again."""
    import tensorflow as tf

    if not context.mirrors:
        return
    if not tf.distribute.has_strategy():
        tf.distribute.experimental_set_strategy(context.strategy)
    plain = [variable for variable in _all_variables(model) if not is_replicated(variable)]
    with compat.rekeyed(all_optimizers(model)):
        again = [variable for variable in plain if _use_replicas(variable)]
    send(context.strategy, [compat.raw_value(variable) for variable in again])
    compat.leave_strategy(model)


def release(model: Model, context: TrainContext) -> None:
    """Make the model's variables plain ones of this process, with the values of its first replica.

    The strategy is no longer the default one: what the program makes and computes from now on is of this process alone.
    """
    import tensorflow as tf

    if not context.mirrors:
        return
    tf.distribute.experimental_set_strategy(None)
    with compat.rekeyed(all_optimizers(model)):
        _use_plain([variable for variable in _all_variables(model) if is_replicated(variable)])
    compat.leave_strategy(model)
    if not context.strategy_released:
        compat.leave_strategy_of_all(context.strategy)
    context.strategy_released = True


@contextmanager
def plain_variables(model: Model, context: TrainContext) -> Iterator[None]:
    """Give the model plain weights, statistics and metrics, and its optimizers plain learning rates and step counts.

    What is changed in them is then changed in all replicas.
    """
    import tensorflow as tf

    variables = [variable for variable in _seen_by_callbacks(model) if is_replicated(variable)]
    tf.distribute.experimental_set_strategy(None)
    _use_plain(variables)
    try:
        yield
    finally:
        tf.distribute.experimental_set_strategy(context.strategy)
        for variable in variables:
            _use_replicas(variable)


def _use_plain(variables: Sequence[Any]) -> None:
    for variable in variables:
        replicas = compat.raw_value(variable)
        first = compat_tensorflow.parts(replicas)[0]
        forms = _forms.get(id(variable))
        if forms is None or forms.replicas is not replicas:
            forms = _remember(variable, first, replicas)
        if forms.plain is not first:
            forms.plain.assign(first)
        compat.set_raw_value(variable, forms.plain)


def _use_replicas(variable: Any) -> bool:
    """Return whether the variable has had replicas before; those of other processes are then to be made equal."""
    import tensorflow as tf

    plain, forms = compat.raw_value(variable), _forms.get(id(variable))
    if forms is None or forms.plain is not plain:
        compat.renew_value(variable, tf.identity(plain))
        _remember(variable, plain, compat.raw_value(variable))
        return False
    for part in compat_tensorflow.parts(forms.replicas):
        if part is not plain:
            part.assign(plain)
    compat.set_raw_value(variable, forms.replicas)
    return True


def _remember(variable: Any, plain: Any, replicas: Any) -> _Forms:
    if id(variable) not in _forms:
        weakref.finalize(variable, _forms.pop, id(variable), None)
    forms = _forms[id(variable)] = _Forms(plain, replicas)
    return forms


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
