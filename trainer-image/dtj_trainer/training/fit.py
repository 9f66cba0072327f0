"""dtj.fit: trains a compiled Keras 3 model."""

import os
import time
from collections.abc import Sequence
from typing import Any

from dtj_trainer.data.adapters.adapter import EpochLength, get_data_adapter
from dtj_trainer.initialization import init
from dtj_trainer.process.exit import exit_on_failure
from dtj_trainer.training.history import Result
from dtj_trainer.training.keras import learning_rate
from dtj_trainer.training.keras.build import build, make_model
from dtj_trainer.training.keras.checks import check_evaluates
from dtj_trainer.training.keras.initial_weights import load_initial_weights
from dtj_trainer.training.keras.trainable import KerasTrainable
from dtj_trainer.training.run_training import Training, check_arguments, optional_path, run_training, set_seed
from dtj_trainer.training.schedule import Schedule
from dtj_trainer.training.validation import Validation


def fit(
    model: Any,
    data: Any,
    validation: Any = None,
    *,
    epochs: int | None = None,
    steps: int | None = None,
    steps_per_epoch: int | None = None,
    name: str | None = None,
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
    context = init()
    with exit_on_failure(context):
        began = time.monotonic()
        check_arguments(context, "dtj.fit", accumulate)
        scaling = learning_rate.check_scaling(learning_rate_scaling)
        seed = set_seed(context, seed)
        adapter = get_data_adapter(
            data,
            context.sharding,
            global_batch_size=global_batch_size,
            per_replica_batch_size=per_replica_batch_size,
            accumulate=accumulate,
            seed=seed,
            length=EpochLength.of(epochs, steps, steps_per_epoch),
        )
        schedule = Schedule.of(epochs, steps, steps_per_epoch, adapter.steps_per_epoch)
        model = make_model(model, mixed_precision)
        build(model, adapter.element_spec, context)
        if validation is not None:
            check_evaluates(model)
        by_steps = steps is not None and epochs is None and steps_per_epoch is None
        learning_rate.scale(
            model.optimizer,
            learning_rate.factor(
                "none" if context.asynchronous else scaling,
                context.replicas,
                per_replica=per_replica_batch_size is not None,
                total=adapter.batch_size.total or global_batch_size,
                base=base_batch_size,
            ),
            warm_up_steps=5 * schedule.per_epoch if schedule.per_epoch and not by_steps else 500,
        )
        trainable = KerasTrainable(model, context, clip_norm=clip_norm)
        weights = optional_path(initial_weights)
        return run_training(
            Training(
                context,
                trainable,
                adapter,
                schedule,
                validation=Validation.of(trainable, context, validation, adapter.batch_size),
                callbacks=callbacks,
                callback_model=model,
                accumulate=accumulate,
                seed=seed,
                began=began,
                name=name,
                model=model,
                load_initial_weights=None if weights is None else lambda: load_initial_weights(model, weights),
                export=optional_path(export),
            )
        )
