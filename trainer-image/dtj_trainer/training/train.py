"""dtj.train: a step of the user's own on the same loop, with the same guarantees."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from dtj_trainer import initialization
from dtj_trainer.checkpoint.checkpoint_manager import Keeper
from dtj_trainer.checkpoint.content import Position
from dtj_trainer.checkpoint.identity import identity
from dtj_trainer.data.adapters import adapter
from dtj_trainer.errors import PreflightFailed
from dtj_trainer.process.exit import exit_on_failure
from dtj_trainer.training.callbacks import Callbacks
from dtj_trainer.training.fit import beside, check_accumulate, conclude, going_on, seeded
from dtj_trainer.training.history import Result
from dtj_trainer.training.loop import Loop
from dtj_trainer.training.run_training import await_turn, caller, refuse
from dtj_trainer.training.schedule import length
from dtj_trainer.training.steps.custom_step import OwnStep, build
from dtj_trainer.training.validation import Evaluation


@dataclass(slots=True)
class Subject:
    """What Keras callbacks see as their model."""

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
    validation: Any = None,
    validation_step: Callable[[Any, Any], Any] | None = None,
    epochs: int | None = None,
    steps: int | None = None,
    steps_per_epoch: int | None = None,
    global_batch_size: int | None = None,
    per_replica_batch_size: int | None = None,
    accumulate: int = 1,
    callbacks: Sequence[Any] | None = (),
    seed: int = 0,
) -> Result:
    """Train `state` (a tf.Module, a dict of trackables, or a function that makes one) by `train_step(state, batch)`.

    The step runs in replica context under `strategy.run`, on the batch of one replica, and returns a dict of scalars;
    they are averaged over replicas. It reduces its own gradients: an optimizer does that, `dtj.all_reduce` too.

    With `accumulate=k` one update takes k global batches: the step gets a tuple of k batches, and adds up their
    gradients as it likes.

    `validation_step(state, batch)` returns a dict of means over its examples; at each epoch's end they are averaged
    over all of `validation`, and named `val_…`. Keras callbacks get a `model` that has `state`,
    `stop_training` and `stop_evaluating`.

    Raises:
        PreflightFailed, UserError, Preempted: as dtj.fit.
    """
    session = initialization.ensure(prepared=callable(state) and not adapter.is_dataset(data))
    with exit_on_failure(session):
        refuse(session, "dtj.train")
        started = time.monotonic()
        check_accumulate(accumulate)
        if validation is not None and validation_step is None:
            raise PreflightFailed(
                "dtj.train got validation= and no way to do it; give validation_step=fn(state, batch)"
            )
        seed = seeded(session, seed)
        sizes = adapter.batches(data, session, global_batch_size, per_replica_batch_size)
        given = steps_per_epoch or (steps if epochs is None else None)
        known = adapter.epoch_steps(data, sizes, session.replicas, accumulate, given, steps)
        ends = length(epochs, steps, steps_per_epoch, known)
        held = state() if isinstance(state, type) or (callable(state) and not hasattr(state, "variables")) else state
        build(held, session)
        trainee = OwnStep(train_step, held, validation_step, accumulate)
        keeper = Keeper(session, trainee.objects, identity(session, sizes, seed, accumulate))
        evaluation = None if validation is None else Evaluation(trainee, session, validation, sizes)
        if session.role == "evaluator":
            return beside(session, keeper, evaluation)
        steps_by = caller(session, trainee, data, sizes, seed, accumulate)
        started += await_turn(steps_by)
        resumed = keeper.resume()
        position = resumed or Position()
        ends = going_on(ends, position, known, sizes, accumulate)
        steps_by.seek(position)
        adapter.check_same(data, session, known)
        loop = Loop(session, trainee, steps_by, ends, keeper, position, accumulate)
        called = Callbacks(callbacks, Subject(held), session, ends)
        loop.hooks = called.hooks(evaluation)
        session.reporter.phase("build", time.monotonic() - started)
        called.begin()
        position, metrics = loop.run()
        session.reporter.phase("save")  # callbacks write
        called.end(metrics)
        return conclude(session, loop, position, metrics, resumed)


def all_reduce(value: Any, how: str = "mean") -> Any:
    """Reduce tensors over all replicas, inside a train step; `how` is "mean" or "sum"."""
    import tensorflow as tf

    replica = tf.distribute.get_replica_context()
    return value if replica is None else replica.all_reduce(how.upper(), value)
