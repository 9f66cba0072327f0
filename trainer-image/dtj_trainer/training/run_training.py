"""The part that `dtj.fit` and `dtj.train` share: takeover, restore, loop, finish."""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from dtj_trainer.checkpoint import export as exported
from dtj_trainer.checkpoint.checkpoint_manager import CheckpointManager
from dtj_trainer.checkpoint.content import EpochLogs, TrainingPosition
from dtj_trainer.checkpoint.job_file import JobFile
from dtj_trainer.checkpoint.trainings import next_training
from dtj_trainer.compat import tensorflow as compat
from dtj_trainer.context import FinishedTraining, TrainContext
from dtj_trainer.data.adapters.adapter import DataAdapter
from dtj_trainer.data.adapters.generator_adapter import GeneratorAdapter
from dtj_trainer.errors import PeersNotReady, PreflightFailed
from dtj_trainer.ipc.takeover import process_takeover
from dtj_trainer.strategy.initial_values import broadcast
from dtj_trainer.training.callbacks import Callbacks, restore_callbacks
from dtj_trainer.training.evaluator import EvaluatorLoop
from dtj_trainer.training.history import History, make_history
from dtj_trainer.training.loop import TrainingLoop
from dtj_trainer.training.open_schedule import Ahead, AnySchedule, OpenSchedule
from dtj_trainer.training.schedule import Schedule
from dtj_trainer.training.steps.compiled_step import CompiledStep
from dtj_trainer.training.steps.eager_step import EagerStep
from dtj_trainer.training.steps.parameter_server import ParameterServerStepRunner, coordinator
from dtj_trainer.training.steps.parameter_server_data import closure_data
from dtj_trainer.training.steps.step_runner import StepRunner
from dtj_trainer.training.steps.trainable import Trainable
from dtj_trainer.training.validation import Validation


@dataclass(frozen=True, slots=True)
class Training:
    """The arguments of one training: what is trained, on which data, and for how long."""

    context: TrainContext
    trainable: Trainable
    data: DataAdapter
    schedule: Schedule
    validation: Validation | None
    callbacks: Sequence[Any] | None
    callback_model: Any
    """The `model` of the callbacks."""
    accumulate: int
    seed: int
    began: float
    """time.monotonic() at the call of fit or train."""
    verbose: str | int = "auto"
    model: Any = None
    """The Keras model, which the result names; None for `dtj.train`."""
    name: str | None = None
    """Its name, where a program has several trainings."""
    load_initial_weights: Callable[[], None] | None = None
    """Called where there is no checkpoint to continue from."""
    export: str | None = None
    """Where the chief writes a SavedModel at the end."""


def run_training(training: Training) -> History:
    """Take over, restore, seek, train, finish. In this order: a standby touches no checkpoint before it takes over.

    Raises:
        PreflightFailed: a checkpoint that does not fit.
        PeersNotReady: the processes do not see the same data.
        UserError: the loss is no longer finite.
        Preempted: asked to leave; the state is saved.
    """
    context, trainable = training.context, training.trainable
    job = JobFile.of(
        context, training.data.batch_size, training.seed, training.accumulate, training.data.batches_per_pass
    )
    checkpoints = CheckpointManager(context, trainable.objects, job, next_training(context, training.name))
    context.reporter.training_started(checkpoints.training.number, training.name)
    if context.role == "evaluator":
        return _evaluate_checkpoints(training, checkpoints)
    runner = _step_runner(training)
    waited = _wait_for_takeover(runner)
    resumed = checkpoints.restore()
    if resumed is not None and checkpoints.finished:
        return _pass_through(training, checkpoints, resumed)
    if resumed is None and training.load_initial_weights is not None:
        training.load_initial_weights()
    position = resumed or TrainingPosition()
    schedule = _from_position(training, position)
    trainable.reset_metrics()
    callbacks = Callbacks(training.callbacks, training.callback_model, context, schedule)
    _check_same_data(context, training.data)
    runner.seek(position)
    if isinstance(schedule, OpenSchedule):
        schedule.resume(position.data.batches)
    history = [] if resumed is None else list(checkpoints.history)
    loop = TrainingLoop(
        context, trainable, runner, schedule, checkpoints, position, history=history, verbose=training.verbose
    )
    loop.hooks = callbacks.hooks(training.validation)
    if checkpoints.training.number > 1:
        context.coordination.barrier()  # what a program does between trainings may take longer on another worker
    context.reporter.phase("build", time.monotonic() - training.began - waited)
    checkpoints.callback_states = callbacks.states
    callbacks.begin(checkpoints.restored_callbacks)
    checkpoints.restore_random_state()
    position, metrics = loop.run()
    trainable.finish()
    context.reporter.phase("save")  # callbacks write
    callbacks.end(metrics)
    _save_last(training, checkpoints, position, schedule.epoch(position.step), metrics, history)
    _finish(training, checkpoints, position.step, metrics)
    return _history(training, schedule, history, position.step, metrics, resumed.step if resumed else None)


def check_arguments(context: TrainContext, name: str) -> None:
    """Refuse arguments under which the training would not do what the program asks for.

    Raises:
        PreflightFailed: the strategy is None, and there are several processes.
    """
    if context.choice.type == "None" and context.environment.trainers > 1:
        raise PreflightFailed(
            f"strategy None leaves the training to the program, so {name} cannot share it among "
            f"{context.environment.trainers} processes; choose another strategy, or use dtj.session"
        )


def set_seed(context: TrainContext, seed: int) -> int:
    """Return the training's seed; if nobody has set one, the first training does.

    A program that has seeded its generators draws on from them, as in one process: models made after the first training
    depend on that. `init` has seeded those of Python and NumPy where the program had not.
    """
    import tensorflow as tf

    chosen = seed or context.seed or 0
    if context.seed is None and not context.training_names and (seed or not compat.has_global_seed()):
        if seed:
            import keras

            keras.utils.set_random_seed(seed)
        elif not compat.has_global_seed():
            tf.random.set_seed(chosen)
    return chosen


def optional_path(path: str | os.PathLike[str] | None) -> str | None:
    """Return a path as a string."""
    return None if path is None else os.fspath(path)


def _step_runner(training: Training) -> StepRunner:
    """Return the step runner of the strategy; it reads the data from the position given to `seek`."""
    context, data = training.context, training.data
    if training.trainable.runs_eagerly:
        return EagerStep(context, training.trainable, data)
    if not context.asynchronous:
        return CompiledStep(context, training.trainable, data, accumulate=training.accumulate)
    made = coordinator(context)
    return ParameterServerStepRunner(
        context,
        training.trainable,
        made,
        lambda position: closure_data(data, context, position.data, made),
    )


def _wait_for_takeover(runner: StepRunner) -> float:
    """Trace the step and wait for the takeover, in a standby; returns the seconds it waited."""
    takeover = process_takeover()
    if takeover.pending:
        runner.prepare()
    return takeover.wait()


def _from_position(training: Training, position: TrainingPosition) -> AnySchedule:
    """Return the schedule from `position` on, which may have been reached with other batch sizes."""
    context, data, schedule, known = training.context, training.data, training.schedule, training.data.batches_per_pass
    if isinstance(data, GeneratorAdapter) and known is None:

        def look(number: int, batches: int) -> Ahead:
            """Return what the chief sees: every process has the same data, and may be less far ahead."""
            found = " ".join(map(str, data.ahead(number, batches))) if context.is_chief else ""
            there, ended = context.coordination.broadcast(found).split()
            return Ahead(int(there), ended == "True")

        return OpenSchedule(schedule, look, reads_once=data.reads_once)
    if known is None or schedule.batches != known:
        return schedule
    return schedule.after(position.step, training.data.batches_before(position.data))


def _check_same_data(context: TrainContext, data: DataAdapter) -> None:
    """Refuse data that differs between processes: they would divide it wrongly, and wait for one another at the end
    of an epoch. Every process calls it.

    Raises:
        PeersNotReady: the chief sees other data, for example because a file was added while the job started.
    """
    if context.workers == 1:
        return
    own = data.fingerprint
    expected = context.coordination.broadcast(own)
    if expected != own:
        if isinstance(data, GeneratorAdapter):
            raise PreflightFailed(data.difference)
        raise PeersNotReady(
            f"the chief sees {expected} in the data and this process {own}; give every replica the same files, and "
            "change none of them during a job"
        )


def _evaluate_checkpoints(training: Training, checkpoints: CheckpointManager) -> History:
    """Run the evaluator loop, in the evaluator."""
    context, validation = training.context, training.validation
    step, metrics = EvaluatorLoop(context, checkpoints, validation.run if validation else None).run()
    context.reporter.phase("done")
    context.finished = FinishedTraining(step, metrics)
    return _history(training, training.schedule, (), step, dict(metrics), None)


def _history(
    training: Training,
    schedule: AnySchedule,
    epochs: Sequence[EpochLogs],
    step: int,
    metrics: dict[str, float],
    resumed_from: int | None,
) -> History:
    steps = None if schedule.known_total is None else schedule.batches
    return make_history(
        training.callback_model,
        epochs,
        {"verbose": training.verbose, "epochs": schedule.last_epoch, "steps": steps},
        step=step,
        metrics=metrics,
        strategy=training.context.choice.type,
        resumed_from=resumed_from,
    )


def _pass_through(training: Training, checkpoints: CheckpointManager, resumed: TrainingPosition) -> History:
    """Return the result of a training that has finished before this start; no callback is called."""
    context, metrics = training.context, dict(checkpoints.metrics)
    broadcast(context.strategy)
    restore_callbacks(training.callbacks, context, checkpoints.restored_callbacks)
    _finish(training, checkpoints, resumed.step, metrics)
    if context.is_chief:
        print(f"dtj: {checkpoints.training} finished at step {resumed.step} already", flush=True)  # noqa: T201 - the console line
    return _history(training, training.schedule, checkpoints.history, resumed.step, metrics, resumed.step)


def _save_last(
    training: Training,
    checkpoints: CheckpointManager,
    position: TrainingPosition,
    epoch: int,
    metrics: dict[str, float],
    history: Sequence[EpochLogs],
) -> None:
    """Save the last step, and wait until that is complete."""
    training.context.reporter.phase("save")
    training.trainable.sync_statistics()
    checkpoints.save(position, epoch, metrics, history, finished=True)
    checkpoints.wait_until_finished()


def _finish(training: Training, checkpoints: CheckpointManager, step: int, metrics: dict[str, float]) -> None:
    """Export, record that the training has finished, and wait for all processes; an earlier start may have done so."""
    context = training.context
    if context.is_chief:
        context.reporter.phase("finish")
        record = checkpoints.recorded()
        if record is None or record.final_step is None:
            if training.export is not None:
                exported.export(training.model, training.export)
            checkpoints.record_finished(step, metrics)
    context.coordination.barrier()
    context.reporter.training_finished(step if checkpoints.directory else None)
    context.finished, context.interrupted = FinishedTraining(step, metrics), None
