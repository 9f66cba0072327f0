"""Keras callbacks as hooks of the training loop."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from importlib.util import find_spec
from typing import Any

from dtj_trainer.checkpoint.callback_state import (
    CallbackState,
    Numbered,
    callback_states,
    continued_files,
    numbered,
    set_callback_states,
)
from dtj_trainer.context import TrainContext
from dtj_trainer.errors import PreflightFailed
from dtj_trainer.ipc.reporter import Reporter
from dtj_trainer.training.keras.replication import plain_variables
from dtj_trainer.training.loop import Hooks
from dtj_trainer.training.open_schedule import AnySchedule
from dtj_trainer.training.validation import BatchHooks, Validation

TRAINING = ("on_train_batch_begin", "on_train_batch_end", "on_batch_begin", "on_batch_end")
VALIDATION = ("on_test_batch_begin", "on_test_batch_end")
BESIDE_BATCHES = (
    "on_train_begin",
    "on_train_end",
    "on_epoch_begin",
    "on_epoch_end",
    "on_test_begin",
    "on_test_end",
)
"""Calls in which a callback may use the model as in one process."""
BACKUP = "BackupAndRestore"
WRITING = ("ModelCheckpoint", "CSVLogger", "TensorBoard")


class Callbacks:
    """The Keras callbacks of a training, in every process; callbacks that write files run on the chief alone."""

    def __init__(self, callbacks: Any, model: Any, context: TrainContext, schedule: AnySchedule) -> None:
        import keras

        callbacks = _without_backups(_listed(callbacks), context)
        for callback in callbacks:
            _check(callback, context)
        self._own = _running_here(callbacks, context)
        own = list(self._own.values())
        model.stop_training = False
        self._model = model
        self._wants_training_batches = any(
            _overrides(callback, TRAINING) or _has_batch_frequency(callback) for callback in callbacks
        )
        self._wants_validation_batches = any(_overrides(callback, VALIDATION) for callback in callbacks)
        self._list: _ReportedCalls | None = None
        uses_model = context.mirrors and any(_overrides(callback, BESIDE_BATCHES) for callback in callbacks)
        self._plain_model: Callable[[], AbstractContextManager[None]] = (
            partial(plain_variables, model, context) if uses_model and hasattr(model, "compute_loss") else nullcontext
        )
        """Returns the context in which a callback may use the model: on this process alone, as in one process."""
        if callbacks:
            per_epoch = None if schedule.known_total is None else schedule.batches or schedule.total
            self._epoch_logs = _epoch_logs_keeper()
            called = keras.callbacks.CallbackList(
                [*own, self._epoch_logs],
                add_history=True,
                model=model,
                epochs=schedule.last_epoch,
                steps=per_epoch,
                verbose=0,
            )
            self._list = _ReportedCalls(called, context.reporter)
        self._schedule = schedule

    def begin(self, states: Sequence[CallbackState] = ()) -> None:
        """Call `on_train_begin`, and then give callbacks what they remembered: several of Keras' reset themselves."""
        if self._list is not None:
            with self._plain_model(), continued_files(self._own, states):
                self._list.on_train_begin()
        set_callback_states(self._own, states)

    def states(self) -> Sequence[CallbackState]:
        """Return what the callbacks remember."""
        return callback_states(self._own)

    def end(self, metrics: Mapping[str, float]) -> None:
        if self._list is not None:
            with self._plain_model():
                self._list.on_train_end(dict(metrics))

    def hooks(self, evaluation: Validation | None) -> Hooks:
        callbacks = self._list
        if callbacks is None:
            return Hooks(validate=evaluation.run, validation_due=evaluation.is_due) if evaluation else Hooks()
        hooks = Hooks(
            epoch_begin=self._with_plain_model(callbacks.on_epoch_begin),
            epoch_end=self._end_epoch,
            validate=self._with_callbacks(evaluation, callbacks) if evaluation else None,
            validation_due=evaluation.is_due if evaluation else lambda _: True,
            wants_stop=lambda: bool(self._model.stop_training),
        )
        if self._wants_training_batches:
            hooks.steps_per_call = max(1, int(getattr(self._model, "steps_per_execution", 1) or 1))
            hooks.batch_begin = lambda step: callbacks.on_train_batch_begin(self._schedule.step_in_epoch(step))
            hooks.batch_end = lambda step, means: callbacks.on_train_batch_end(
                self._schedule.step_in_epoch(step), means
            )
        return hooks

    def _end_epoch(self, epoch: int, logs: dict[str, Any]) -> None:
        """Call `on_epoch_end`; `logs` get what callbacks have added, as in a Keras History."""
        assert self._list is not None
        with self._plain_model():
            self._list.on_epoch_end(epoch, logs)
        logs.update(self._epoch_logs.logs)

    def _with_plain_model(self, call: Callable[..., None]) -> Callable[..., None]:
        def called(*arguments: Any) -> None:
            with self._plain_model():
                call(*arguments)

        return called

    def _with_callbacks(self, evaluation: Validation, callbacks: Any) -> Callable[[], Mapping[str, Any] | None]:
        """Return the validation with its Keras calls: begin, end, and each batch if a callback overrides that."""
        each = None
        if self._wants_validation_batches:
            each = BatchHooks(
                callbacks.on_test_batch_begin,
                callbacks.on_test_batch_end,
                should_stop=lambda: bool(self._model.stop_evaluating),
            )

        def run() -> Mapping[str, Any] | None:
            self._model.stop_evaluating = False
            self._with_plain_model(callbacks.on_test_begin)()
            found = evaluation.run(each)
            self._with_plain_model(callbacks.on_test_end)(dict(evaluation.last_metrics))
            return found

        return run


def _epoch_logs_keeper() -> Any:
    """Return a callback that keeps the last epoch's logs: Keras gives all callbacks of a list a copy of them."""
    import keras

    class EpochLogsKeeper(keras.callbacks.Callback):
        logs: Mapping[str, Any] = {}

        def on_epoch_end(self, _epoch: int, logs: Mapping[str, Any] | None = None) -> None:
            self.logs = dict(logs or {})

    return EpochLogsKeeper()


class _ReportedCalls:
    """The calls of a CallbackList, each reported while it goes on."""

    def __init__(self, callbacks: Any, reporter: Reporter) -> None:
        self._callbacks = callbacks
        self._reporter = reporter

    def __getattr__(self, method: str) -> Callable[..., None]:
        called = getattr(self._callbacks, method)

        def call(*arguments: Any) -> None:
            with self._reporter.callback(method):
                called(*arguments)

        return call


def restore_callbacks(callbacks: Any, context: TrainContext, states: Sequence[CallbackState]) -> None:
    """Give the callbacks of a finished training what they remembered at its end; of those of Keras, none is called."""
    others = [callback for callback in _listed(callbacks) if BACKUP not in _kinds(callback)]
    set_callback_states(_running_here(others, context), states)


def _listed(callbacks: Any) -> list[Any]:
    import keras

    return [callbacks] if isinstance(callbacks, keras.callbacks.Callback) else list(callbacks or ())


def _running_here(callbacks: Sequence[Any], context: TrainContext) -> Numbered:
    """Return those that run in this process: on the chief all, elsewhere those that write no files."""
    found = numbered(callbacks)
    return found if context.is_chief else {key: each for key, each in found.items() if not _writes(each)}


def _check(callback: Any, context: TrainContext) -> None:
    """Refuse Keras' TensorBoard callback where it would fail at the first epoch's end."""
    import keras

    if isinstance(callback, keras.callbacks.TensorBoard) and find_spec("tensorboard") is None:
        logs = context.environment.checkpoint.logs
        raise PreflightFailed(
            "Keras' TensorBoard callback needs the package tensorboard, which is not installed here; leave it out: "
            f"event files of the metrics are in {logs or 'the log directory, where a job has one'}"
        )


def _overrides(callback: Any, methods: Sequence[str]) -> bool:
    """Return whether a callback overrides one of these methods.

    Those of Keras' own callbacks mostly do nothing: of them, only functions that they were given count.
    """
    import keras

    if type(callback).__module__.split(".")[0] == keras.__name__:
        return not vars(callback).keys().isdisjoint(methods)
    base = keras.callbacks.Callback
    return any(getattr(type(callback), name, None) is not getattr(base, name) for name in methods)


def _has_batch_frequency(callback: Any) -> bool:
    """Return whether the callback saves or updates every so many batches."""
    return getattr(callback, "save_freq", getattr(callback, "update_freq", "epoch")) != "epoch"


def _writes(callback: Any) -> bool:
    return bool(getattr(callback, "writes", False)) or not _kinds(callback).isdisjoint(WRITING)


def _without_backups(callbacks: Sequence[Any], context: TrainContext) -> list[Any]:
    """Return all but BackupAndRestore, which would reset the weights of a resumed training, on the chief alone."""
    others = [callback for callback in callbacks if BACKUP not in _kinds(callback)]
    if len(others) < len(callbacks) and context.is_chief:
        print(  # noqa: T201 - the console line
            "dtj: BackupAndRestore is left out; the training saves and resumes by itself where it has a checkpoint "
            "directory",
            flush=True,
        )
    return others


def _kinds(callback: Any) -> set[str]:
    return {kind.__name__ for kind in type(callback).__mro__}
