"""All uses of private names of Keras, each with the versions that have it.

`check` reports missing names at start-up. Functions here do without a private name where they can.
"""

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from operator import attrgetter
from typing import Any, Final

from dtj_trainer.compat.types import Metric, Model, Optimizer, Structure, Tensor
from dtj_trainer.errors import PreflightFailed

SUPPORTED: Final = "3.12 to 3.15"
NEEDED: Final = {
    "a loss with reduction='sum' on several replicas": ("keras.src.losses.loss", "reduce_values"),
    "a loss over unmasked entries on several replicas": ("keras.src.losses.loss", "apply_mask"),
    "a train_step of the model's own on several replicas": ("keras.src.losses.loss", "scale_loss_for_distribution"),
    "a loss for each example in such a train_step": ("keras.src.trainers.compile_utils", "CompileLoss"),
    "saving a model while several processes train": ("keras.src.saving.saving_lib", "get_attr_skipset"),
    "a loss that a layer adds, on several replicas": (
        "keras.src.backend.common.stateless_scope",
        "StatelessScope.add_loss",
    ),
    "mixed_precision": ("keras.src.layers.layer", "Layer._flatten_layers"),
}
"""What is needed for something, by what it is needed for: a module, and a name in it."""


def check() -> None:
    """Refuse a Keras without one of the NEEDED names. All of these modules are part of `import keras`.

    Raises:
        PreflightFailed: names what is missing and what it is for.
    """
    for purpose, (module, name) in NEEDED.items():
        try:
            attrgetter(name)(import_module(module))
        except (ImportError, AttributeError):
            import keras

            raise PreflightFailed(
                f"Keras {keras.__version__} has no {module}.{name}, which is needed for {purpose}; "
                f"use Keras {SUPPORTED}"
            ) from None


# Callbacks ------------------------------------------------------------------------------------------------------------

BATCH_COUNTERS: Final = ("_batches_seen_since_last_saving", "_last_batch_seen")
"""How far callbacks that save every so many batches have counted. Seen in 3.12 and 3.15."""


# Models ---------------------------------------------------------------------------------------------------------------


def call_has_training(model: Model) -> bool:
    """Return whether the model's `call` takes `training`. Seen in 3.12 and 3.15."""
    return bool(getattr(model, "_call_has_training_arg", True))


def build_symbolically(model: Model, batch: Structure) -> bool:
    """Build the model, its loss and its metrics from the KerasTensors of a batch, without running an op.

    Returns False if this Keras cannot do that. Seen in 3.12 and 3.15.
    """
    build = getattr(model, "_symbolic_build", None)
    if build is not None:
        build(data_batch=batch)
    return build is not None


def loss_tracker(model: Model) -> Metric | None:
    """Return the metric in which Keras keeps the mean of the model's loss. Seen in 3.12 and 3.15."""
    found: Metric | None = getattr(model, "_loss_tracker", None)
    return found


def output_losses(model: Model) -> list[Metric]:
    """Return the means in which Keras keeps the loss of each of several outputs. Seen in 3.12 and 3.15."""
    loss, _ = compiled_loss_and_metrics(model)
    return list(getattr(loss, "metrics", None) or ())


def compiled_loss_and_metrics(model: Model) -> tuple[Any, Any]:
    """Return the objects that `compile` made of `loss` and `metrics`, or None. Seen in 3.12 and 3.15."""
    return getattr(model, "_compile_loss", None), getattr(model, "_compile_metrics", None)


def all_layers(model: Model) -> list[Any]:
    """Return the model and every layer in it; the public `layers` are not nested. Seen in 3.12 and 3.15."""
    return list(model._flatten_layers())  # type: ignore[attr-defined]  # noqa: SLF001


def has_own_dtype(layer: Any) -> bool:
    """Return whether a layer was created with its own dtype. Seen in 3.12 and 3.15.

    One that Keras made from another's configuration (of a loaded model, or in a Bidirectional) has that one's dtype,
    written as a dict, whether anybody chose it or not.
    """
    arguments = getattr(layer, "_auto_config", None)
    dtype = None if arguments is None else arguments.config.get("dtype")
    return dtype is not None and not isinstance(dtype, Mapping)


def keep_added_losses(model: Model, scope: Any) -> None:
    """Let `model.losses` inside a keras.StatelessScope give what layers have added before it. Seen in 3.12 and 3.15."""
    for layer in all_layers(model):
        for loss in getattr(layer, "_losses", ()):
            scope.add_loss(loss)
            layer._loss_ids.add(id(loss))  # noqa: SLF001


# Variables ------------------------------------------------------------------------------------------------------------


def raw_value(variable: Any) -> Any:
    """Return TensorFlow's variable inside one of Keras. Seen in 3.12 and 3.15."""
    return variable._value  # noqa: SLF001


def set_raw_value(variable: Any, value: Any) -> None:
    """Put TensorFlow's variable into one of Keras. Seen in 3.12 and 3.15."""
    variable._value = value  # noqa: SLF001


def renew_value(variable: Any, initial: Tensor) -> None:
    """Make a new variable of TensorFlow in one of Keras, under the default strategy. Seen in 3.12 and 3.15.

    A tape watches it as it did the one before: a layer that is frozen now may train later.
    """
    trainable, variable.trainable = variable.trainable, raw_value(variable).trainable
    variable._initialize(initial)  # noqa: SLF001
    variable.trainable = trainable


@contextmanager
def rekeyed(optimizers: Sequence[Any]) -> Iterator[None]:
    """Let optimizers, and those that they wrap, know their variables again whose values are new after the block.

    They find them by keys made of those values. Their strategy is the default one then. Seen in 3.12 and 3.15.
    """
    import tensorflow as tf

    every = [each for optimizer in optimizers for each in _with_inner(optimizer)]
    held = [each for each in every if getattr(each, "built", False)]
    keys = [
        [(variable, each._var_key(variable)) for variable in each._trainable_variables]  # noqa: SLF001
        for each in held
    ]
    yield
    for each, pairs in zip(held, keys, strict=True):
        renewed = {old: each._var_key(variable) for variable, old in pairs}  # noqa: SLF001
        each._trainable_variables_indices = _with_keys(each._trainable_variables_indices, renewed)  # noqa: SLF001
        if hasattr(each, "_var_to_optimizer_idx"):
            each._var_to_optimizer_idx = _with_keys(each._var_to_optimizer_idx, renewed)  # noqa: SLF001
        if hasattr(each, "_exclude_from_weight_decay_cache"):
            each._exclude_from_weight_decay_cache = {}  # noqa: SLF001
        excluded = getattr(each, "_exclude_from_weight_decay", None)
        if isinstance(excluded, set):
            each._exclude_from_weight_decay = {renewed.get(key, key) for key in excluded}  # noqa: SLF001
    for each in every:
        each._distribution_strategy = tf.distribute.get_strategy()  # noqa: SLF001


def _with_keys(known: Mapping[Any, Any], renewed: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return a new dict with other keys: TensorFlow saves none that was changed after it was assigned."""
    return {renewed.get(key, key): value for key, value in known.items()}


def _with_inner(optimizer: Any) -> list[Any]:
    """Return an optimizer and those inside it: of a LossScaleOptimizer, or of a MultiOptimizer."""
    if optimizer is None:
        return []
    inner = [getattr(optimizer, "inner_optimizer", None), *(getattr(optimizer, "optimizers", None) or ())]
    return [optimizer, *(found for each in inner if each is not None for found in _with_inner(each))]


def leave_strategy_of_all(strategy: Any) -> None:
    """Do the same as `leave_strategy` to all other models that were made under a strategy: programs share layers
    between models, and train one of them. Seen in 3.12 and 3.15.
    """
    import keras

    for each in gc.get_objects():
        if issubclass(type(each), keras.Model) and getattr(each, "_distribute_strategy", None) is strategy:
            leave_strategy(each)


def leave_strategy(model: Model) -> None:
    """Let the model's own `fit`, `evaluate` and `predict` run under the default strategy. Seen in 3.12 and 3.15."""
    for each in all_layers(model):
        if hasattr(each, "_distribute_strategy"):
            each._distribute_strategy = None  # noqa: SLF001
            each.train_function = each.test_function = each.predict_function = None


# Optimizers -----------------------------------------------------------------------------------------------------------


@contextmanager
def without_gradient_sum(optimizers: Sequence[Any]) -> Iterator[bool]:
    """Stop optimizers, and those that they wrap, from summing gradients over replicas: they are summed already.

    Yields whether that is possible: Keras has no public way to skip its sum. Seen in 3.12 and 3.15.
    """
    every = [each for optimizer in optimizers for each in _with_inner(optimizer)]
    summing: list[Any] = [each for each in every if hasattr(each, "_all_reduce_sum_gradients")]
    for each in summing:
        each._all_reduce_sum_gradients = lambda pairs: pairs  # noqa: SLF001
    try:
        yield bool(summing)
    finally:
        for each in summing:
            del each._all_reduce_sum_gradients  # noqa: SLF001


@contextmanager
def with_apply(optimizers: Sequence[Any], calls: Mapping[int, Callable[..., Any]]) -> Iterator[None]:
    """Call `calls[id(optimizer)]` in place of `apply` of each optimizer inside; `apply_gradients` calls that too."""
    for each in optimizers:
        each.apply = calls[id(each)]
    try:
        yield
    finally:
        for each in optimizers:
            del each.apply


def learning_rate_object(optimizer: Optimizer | None) -> Any:
    """Return the learning rate object of an optimizer: a variable, a schedule, or a function.

    None if it is not an optimizer. Seen in 3.12 and 3.15.
    """
    return getattr(optimizer, "_learning_rate", None)


def set_learning_rate_object(optimizer: Optimizer, rate: Any) -> None:
    """Set the learning rate object of an optimizer.

    The public property would remove the rate's variable from the optimizer's list; the optimizer could then not be
    saved, and would not match the checkpoint of another number of replicas. Seen in 3.12 and 3.15.
    """
    optimizer._learning_rate = rate  # type: ignore[attr-defined]  # noqa: SLF001


def remember_optimizer_attributes() -> None:
    """Cache the attribute names of an optimizer in Keras now.

    Keras creates an optimizer for this each time it saves a model, because it writes its cache under one name and reads
    another. A variable created under a strategy of several processes waits for all of them, but only the chief saves.
    Call it again after `keras.backend.clear_session()`. Seen in 3.12 and 3.15.
    """
    from keras.src.backend.common import global_state
    from keras.src.saving import saving_lib

    attributes = saving_lib.get_attr_skipset("Optimizer")
    global_state.set_global_attribute("saving_attr_skiplist_Optimizer", attributes)
