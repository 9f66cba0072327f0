"""dtj.fit: a compiled Keras 3 model, trained by the loop."""

import os
import time
from collections.abc import Callable, Sequence
from typing import Any

from dtj_trainer import initialization
from dtj_trainer.data.adapters.adapter import EpochLength, get_data_adapter, runs_ops
from dtj_trainer.errors import PreflightFailed, UserError
from dtj_trainer.process.exit import exit_on_failure
from dtj_trainer.training.history import Result
from dtj_trainer.training.keras import learning_rate, precision, trainable
from dtj_trainer.training.run_training import Training, check_arguments, optional_path, run_training, set_seed
from dtj_trainer.training.schedule import length
from dtj_trainer.training.validation import Evaluation


def fit(
    model: Any,
    data: Any,
    validation: Any = None,
    *,
    epochs: int | None = None,
    steps: int | None = None,
    steps_per_epoch: int | None = None,
    initial_weights: str | os.PathLike[str] | None = None,
    global_batch_size: int | None = None,
    per_replica_batch_size: int | None = None,
    base_batch_size: int | None = None,
    learning_rate_scaling: str = "auto",
    accumulate: int = 1,
    clip_norm: float | None = None,
    mixed_precision: str | None = None,
    callbacks: Sequence[Any] | None = (),
    seed: int = 0,
    export: str | os.PathLike[str] | None = None,
) -> Result:
    """Train a compiled Keras 3 model (or what a function returns) under the strategy of this process.

    `data` is a Pipeline, a tf.data.Dataset of global batches, or fn(ctx) → the Dataset of one process.
    `seed` 0 is that of `init()`, if it was given one.

    Raises:
        PreflightFailed: sizes, lengths or checkpoints that do not fit.
        UserError: the model is not compiled or was built too early; the loss is no longer finite.
        Preempted: asked to leave; the state is saved.
    """
    session = initialization.ensure(prepared=not hasattr(model, "variables") and not runs_ops(data))
    with exit_on_failure(session):
        began = time.monotonic()
        check_arguments(session, "dtj.fit", accumulate)
        scaling = learning_rate.known(learning_rate_scaling)
        seed = set_seed(session, seed)
        adapter = get_data_adapter(
            data,
            session.sharding,
            global_batch_size=global_batch_size,
            per_replica_batch_size=per_replica_batch_size,
            accumulate=accumulate,
            seed=seed,
            length=EpochLength.of(epochs, steps, steps_per_epoch),
        )
        ends = length(epochs, steps, steps_per_epoch, adapter.steps_per_epoch)
        model = _model(model, mixed_precision)
        trainable.build(model, adapter.element_spec, session)
        if validation is not None:
            trainable.check_evaluates(model)
        by_steps = steps is not None and epochs is None and steps_per_epoch is None
        learning_rate.scale(
            model.optimizer,
            learning_rate.factor(
                "none" if session.asynchronous else scaling,
                session.replicas,
                per_replica=per_replica_batch_size is not None,
                total=adapter.batch_size.total or global_batch_size,
                base=base_batch_size,
            ),
            warm_up_steps=5 * ends.per_epoch if ends.per_epoch and not by_steps else 500,
        )
        trainee = trainable.KerasModel(model, session, clip_norm=clip_norm)
        weights = optional_path(initial_weights)
        return run_training(
            Training(
                session,
                trainee,
                adapter,
                ends,
                validation=Evaluation.of(trainee, session, validation, adapter.batch_size),
                callbacks=callbacks,
                callback_model=model,
                accumulate=accumulate,
                seed=seed,
                began=began,
                model=model,
                load_initial_weights=None if weights is None else lambda: _load_weights(model, weights),
                export=optional_path(export),
            )
        )


def _model(model: Any | Callable[[], Any], mixed_precision: str | None) -> Any:
    if mixed_precision not in {None, "float16", "bfloat16"}:
        raise PreflightFailed(f"mixed_precision {mixed_precision!r} is unknown; use 'float16', 'bfloat16' or None")
    _refuse_keras_2(model)
    if hasattr(model, "compute_loss"):
        if mixed_precision is not None:
            precision.convert(model, mixed_precision)
        return model
    if mixed_precision is not None:
        precision.make_default(mixed_precision)
    if not callable(model):
        raise UserError(f"dtj.fit got {type(model).__name__} as model; give a compiled Keras model or a function")
    made = model()
    _refuse_keras_2(made)
    if not hasattr(made, "compute_loss"):
        raise UserError(f"the model function returned {type(made).__name__}; it has to return a compiled Keras 3 model")
    return made


def _refuse_keras_2(model: Any) -> None:
    if any(kind.__module__.partition(".")[0] == "tf_keras" for kind in type(model).__mro__):
        raise UserError(
            f"dtj.fit trains models of Keras 3, and {type(model).__name__} is one of tf_keras (Keras 2); build it with "
            "`import keras`, train it with dtj.train, or run its own fit in a script under dtj-run"
        )


def _load_weights(model: Any, path: str) -> None:
    """Hot start: Keras weights by file name, else a checkpoint (a prefix or a directory)."""
    import tensorflow as tf

    try:
        if path.endswith((".h5", ".keras")):
            model.load_weights(path)
            return
        prefix = tf.train.latest_checkpoint(path) or path
        parts = tf.train.TrackableView.children(model).items()
        weights = tf.train.Checkpoint(**{name: part for name, part in parts if part is not model.optimizer})
        tf.train.Checkpoint(model=weights).read(prefix).expect_partial().assert_existing_objects_matched()
    except (OSError, ValueError, AssertionError, tf.errors.OpError) as error:
        reason = str(error).strip().splitlines()[0][:200]
        raise PreflightFailed(
            f"initial_weights {path} cannot be used ({reason}); give weights or a checkpoint of this model"
        ) from error
