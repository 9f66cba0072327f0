"""dtj.fit: a compiled Keras 3 model, trained by the loop."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dtj_trainer import initialization
from dtj_trainer.checkpoint import export as exported
from dtj_trainer.checkpoint.checkpoint_manager import Keeper
from dtj_trainer.checkpoint.content import Position
from dtj_trainer.checkpoint.identity import identity
from dtj_trainer.data.adapters import adapter
from dtj_trainer.errors import PreflightFailed, UserError
from dtj_trainer.initialization import Session
from dtj_trainer.process.exit import exit_on_failure
from dtj_trainer.training import callbacks as calling
from dtj_trainer.training.evaluator import SideCar
from dtj_trainer.training.history import Result
from dtj_trainer.training.keras import learning_rate, precision, trainable
from dtj_trainer.training.loop import Loop
from dtj_trainer.training.run_training import await_turn, caller, refuse
from dtj_trainer.training.schedule import Length, length
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
    session = initialization.ensure(prepared=not hasattr(model, "variables") and not adapter.is_dataset(data))
    with exit_on_failure(session):
        refuse(session, "dtj.fit")
        initial_weights = None if initial_weights is None else os.fspath(initial_weights)
        export = None if export is None else os.fspath(export)
        check_accumulate(accumulate)
        scaling = learning_rate.known(learning_rate_scaling)
        started = time.monotonic()
        seed = seeded(session, seed)
        sizes = adapter.batches(data, session, global_batch_size, per_replica_batch_size)
        given = steps_per_epoch or (steps if epochs is None else None)
        known = adapter.epoch_steps(data, sizes, session.replicas, accumulate, given, steps)
        ends = length(epochs, steps, steps_per_epoch, known)
        by_steps = steps is not None and epochs is None and steps_per_epoch is None
        model = _model(model, mixed_precision)
        trainable.build(model, adapter.element_spec(data, session, sizes), session)
        if validation is not None:
            trainable.check_evaluates(model)
        learning_rate.scale(
            model.optimizer,
            learning_rate.factor(
                "none" if session.asynchronous else scaling,
                session.replicas,
                per_replica=per_replica_batch_size is not None,
                total=sizes.total or global_batch_size,
                base=base_batch_size,
            ),
            warm_up_steps=5 * ends.per_epoch if ends.per_epoch and not by_steps else 500,
        )
        trainee = trainable.KerasModel(model, session, clip_norm=clip_norm)
        keeper = Keeper(session, trainee.objects, identity(session, sizes, seed, accumulate))
        evaluation = None if validation is None else Evaluation(trainee, session, validation, sizes)
        if session.role == "evaluator":
            return beside(session, keeper, evaluation, model)
        steps_by = caller(session, trainee, data, sizes, seed, accumulate)
        started += await_turn(steps_by)
        resumed = keeper.resume()
        if resumed is None and initial_weights is not None:
            _load_weights(model, initial_weights)
        position = resumed or Position()
        ends = going_on(ends, position, known, sizes, accumulate)
        trainee.reset_metrics()
        called = calling.Callbacks(callbacks, model, session, ends)
        steps_by.seek(position)
        adapter.check_same(data, session, known)
        loop = Loop(session, trainee, steps_by, ends, keeper, position, accumulate)
        loop.hooks = called.hooks(evaluation)
        session.reporter.phase("build", time.monotonic() - started)
        called.begin()
        position, metrics = loop.run()
        trainee.finish()
        session.reporter.phase("save")  # callbacks write
        called.end(metrics)
        return conclude(session, loop, position, metrics, resumed, model, export)


def beside(session: Session, keeper: Keeper, evaluation: Any, model: Any = None) -> Result:
    """What the evaluator does instead of training."""
    step, metrics = SideCar(session, keeper, evaluation.run if evaluation else None).to_the_end()
    session.reporter.phase("done")
    return Result(step, metrics, session.choice.type, None, model)


def conclude(
    session: Session,
    loop: Loop,
    position: Position,
    metrics: Mapping[str, float],
    resumed: Position | None,
    model: Any = None,
    export: str | None = None,
) -> Result:
    """Save the last step, export, leave done.json, and wait until everybody has come so far."""
    session.reporter.phase("save")
    loop.trainee.settle()
    loop.keeper.save(position, loop.length.epoch(position.step), metrics)
    loop.keeper.wait()
    if session.is_chief:
        session.reporter.phase("finish")
    if export is not None and session.is_chief:
        exported.export(model, export)
    loop.keeper.finish(position, metrics)
    session.board.barrier()
    session.reporter.phase("done")
    session.trained = True
    return Result(position.step, metrics, session.choice.type, resumed.step if resumed else None, model)


def going_on(ends: Length, position: Position, known: int | None, sizes: adapter.Batches, accumulate: int) -> Length:
    """`ends` of a training that has come to `position`, perhaps by other batches: epochs are passes over the data, of
    `known` updates.
    """
    update = (sizes.total or 0) * accumulate
    if known is None or not update or ends.per_epoch != known:
        return ends
    return ends.after(position.step, position.examples // update)


def check_accumulate(accumulate: int) -> None:
    """Refuse a number of batches that is none."""
    if accumulate < 1:
        raise PreflightFailed(f"accumulate is {accumulate}; it has to be at least 1")


def seeded(session: Session, seed: int) -> int:
    """The training's seed; where init() seeded nothing, it seeds Python, NumPy, TensorFlow and Keras now."""
    chosen = seed or session.seed or 0
    if session.seed is None:
        import keras

        keras.utils.set_random_seed(chosen)
    return chosen


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
