"""dtj.train: a custom training step in the same loop, with the same guarantees."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dtj_trainer.checkpoint.job_file import counted_batches
from dtj_trainer.checkpoint.trainings import upcoming_training
from dtj_trainer.data.adapters.adapter import get_data_adapter
from dtj_trainer.data.adapters.given_data import EpochLength, GivenData
from dtj_trainer.errors import PreflightFailed
from dtj_trainer.initialization import init
from dtj_trainer.process.exit import exit_on_failure
from dtj_trainer.training.history import History
from dtj_trainer.training.run_training import Training, check_arguments, run_training, set_seed
from dtj_trainer.training.schedule import Schedule
from dtj_trainer.training.steps.custom_step import CustomStep, build
from dtj_trainer.training.validation import Validation, ValidationSchedule


@dataclass(slots=True)
class Subject:
    """The `model` of Keras callbacks."""

    state: Any
    stop_training: bool = False
    stop_evaluating: bool = False
    history: Any = None
    optimizer: Any = None


def train(
    train_step: Callable[[Any, Any], Any],
    *,
    state: Any,
    data: Any,
    validation_data: Any = None,
    validation_step: Callable[[Any, Any], Any] | None = None,
    batch_size: int | None = None,
    per_replica_batch_size: int | None = None,
    epochs: int | None = None,
    steps: int | None = None,
    steps_per_epoch: int | None = None,
    accumulate: int = 1,
    callbacks: Any = None,
    name: str | None = None,
    seed: int = 0,
) -> History:
    """Train `state` (a tf.Module, a dict of trackables, or a function that makes one) by `train_step(state, batch)`.

    The step runs in replica context under `strategy.run`, on the batch of one replica, and returns a dict of scalars;
    they are averaged over replicas. It reduces its own gradients: an optimizer does that, `dtj.all_reduce` too.

    With `accumulate=k` one update takes k global batches: the step gets a tuple of k batches, and adds up their
    gradients as it likes.

    `validation_step(state, batch)` returns a dict of means over its examples; at each epoch's end they are averaged
    over all of `validation_data`, and named `val_…`. Keras callbacks get a `model` that has `state`,
    `stop_training` and `stop_evaluating`.

    Raises:
        PreflightFailed, UserError, Preempted: as dtj.fit.
    """
    context = init()
    with exit_on_failure(context):
        began = time.monotonic()
        check_arguments(context, "dtj.train")
        if validation_data is not None and validation_step is None:
            raise PreflightFailed(
                "dtj.train got validation_data= and no way to do it; give validation_step=fn(state, batch)"
            )
        seed = set_seed(context, seed)
        adapter = get_data_adapter(
            GivenData.of_training(data),
            context.sharding,
            batch_size=batch_size,
            per_replica_batch_size=per_replica_batch_size,
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
        )
        held = state() if isinstance(state, type) or (callable(state) and not hasattr(state, "variables")) else state
        build(held, context)
        trainable = CustomStep(train_step, held, validation_step, accumulate)
        return run_training(
            Training(
                context,
                trainable,
                adapter,
                schedule,
                validation=Validation.of(
                    trainable,
                    context,
                    None if validation_data is None else GivenData.of_validation(validation_data),
                    ValidationSchedule(),
                    adapter.batch_size,
                ),
                callbacks=callbacks,
                callback_model=Subject(held),
                accumulate=accumulate,
                seed=seed,
                began=began,
                name=name,
            )
        )


def all_reduce(value: Any, how: str = "mean") -> Any:
    """Reduce tensors over all replicas, inside a train step; `how` is "mean" or "sum"."""
    import tensorflow as tf

    replica = tf.distribute.get_replica_context()
    return value if replica is None else replica.all_reduce(how.upper(), value)
