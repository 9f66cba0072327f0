"""dtj.fit: trains a compiled Keras 3 model."""

import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

from dtj_trainer.checkpoint.job_file import counted_batches
from dtj_trainer.checkpoint.trainings import upcoming_training
from dtj_trainer.data.adapters.adapter import get_data_adapter, split_for_validation
from dtj_trainer.data.adapters.given_data import EpochLength, GivenData
from dtj_trainer.initialization import init
from dtj_trainer.process.exit import exit_on_failure
from dtj_trainer.training.history import History
from dtj_trainer.training.keras import learning_rate
from dtj_trainer.training.keras.build import build, make_model
from dtj_trainer.training.keras.initial_weights import load_initial_weights
from dtj_trainer.training.keras.replication import release
from dtj_trainer.training.keras.trainable import KerasTrainable
from dtj_trainer.training.run_training import Training, check_arguments, optional_path, run_training, set_seed
from dtj_trainer.training.schedule import Schedule
from dtj_trainer.training.validation import Validation, ValidationSchedule


def fit(  # noqa: PLR0917 - the arguments of keras.Model.fit, in its order
    model: Any,
    x: Any = None,
    y: Any = None,
    batch_size: int | None = None,
    epochs: int | None = None,
    verbose: str | int = "auto",
    callbacks: Any = None,
    validation_split: float = 0.0,
    validation_data: Any = None,
    shuffle: bool = True,  # noqa: FBT001, FBT002
    class_weight: Mapping[int, float] | None = None,
    sample_weight: Any = None,
    initial_epoch: int = 0,
    steps_per_epoch: int | None = None,
    validation_steps: int | None = None,
    validation_batch_size: int | None = None,
    validation_freq: int | Sequence[int] = 1,
    *,
    steps: int | None = None,
    name: str | None = None,
    per_replica_batch_size: int | None = None,
    base_batch_size: int | None = None,
    learning_rate_scaling: str = "auto",
    accumulate: int = 1,
    clip_norm: float | None = None,
    mixed_precision: str | None = None,
    initial_weights: str | os.PathLike[str] | None = None,
    seed: int = 0,
    export: str | os.PathLike[str] | None = None,
) -> History:
    """Train a compiled Keras 3 model (or what a function returns) under the strategy of this process.

    The arguments up to `validation_freq` are those of `keras.Model.fit`; `epochs` None is 1, or no limit where `steps`
    is given. `seed` 0 is that of `init()`, if it was given one. docs/howto/bring-your-model.md has each argument.

    Raises:
        PreflightFailed: data, sizes, lengths or checkpoints that do not fit.
        UserError: the model is not compiled or was built too early; the loss is no longer finite.
        Preempted: asked to leave; the state is saved.
    """
    context = init()
    with exit_on_failure(context):
        began = time.monotonic()
        check_arguments(context, "dtj.fit")
        scaling = learning_rate.check_scaling(learning_rate_scaling)
        seed = set_seed(context, seed)
        data = GivenData(x, y, sample_weight, class_weight)
        evaluated = None if validation_data is None else GivenData.of_validation(validation_data)
        if validation_split and validation_data is None:
            data, evaluated = split_for_validation(data, validation_split)
        adapter = get_data_adapter(
            data,
            context.sharding,
            batch_size=batch_size,
            per_replica_batch_size=per_replica_batch_size,
            shuffle=shuffle,
            seed=seed,
            length=EpochLength.of(epochs, steps, steps_per_epoch, accumulate),
            counted_batches=lambda: counted_batches(context, upcoming_training(context, name)),
        )
        schedule = Schedule.of(
            epochs,
            steps,
            steps_per_epoch,
            adapter.batches_per_pass,
            accumulate=accumulate,
            passes_end=adapter.passes_end,
            open_epochs=adapter.open_epochs,
            initial_epoch=initial_epoch,
        )
        model = make_model(model, mixed_precision)
        build(model, adapter.element_spec, context)
        by_steps = steps is not None and epochs is None and steps_per_epoch is None
        learning_rate.scale(
            model.optimizer,
            learning_rate.factor(
                "none" if context.asynchronous else scaling,
                context.replicas,
                per_replica=per_replica_batch_size is not None,
                total=adapter.batch_size.total or batch_size,
                base=base_batch_size,
            ),
            warm_up_steps=5 * schedule.epoch_steps
            if schedule.epoch_steps and schedule.known_total and not by_steps
            else 500,
        )
        trainable = KerasTrainable(model, context, clip_norm=clip_norm)
        weights = optional_path(initial_weights)
        history = run_training(
            Training(
                context,
                trainable,
                adapter,
                schedule,
                validation=Validation.of(
                    trainable,
                    context,
                    evaluated,
                    ValidationSchedule(validation_batch_size, validation_steps, validation_freq),
                    adapter.batch_size,
                ),
                callbacks=callbacks,
                callback_model=model,
                accumulate=accumulate,
                seed=seed,
                began=began,
                verbose=verbose,
                name=name,
                model=model,
                load_initial_weights=None if weights is None else lambda: load_initial_weights(model, weights),
                export=optional_path(export),
            )
        )
        release(model, context)
        return history
