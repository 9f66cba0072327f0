"""Keras callbacks around the loop."""

from collections.abc import Mapping, Sequence
from typing import Any

from dtj_trainer.loop.engine import Hooks
from dtj_trainer.loop.length import Length
from dtj_trainer.running import Session

BATCH_METHODS = ("on_train_batch_begin", "on_train_batch_end", "on_batch_begin", "on_batch_end")
WRITING = ("ModelCheckpoint", "CSVLogger", "TensorBoard", "BackupAndRestore")


class Callbacks:
    """Runs on every process; callbacks that write files run on the chief alone."""

    def __init__(self, callbacks: Sequence[Any], model: Any, session: Session, ends: Length) -> None:
        import keras

        own = [callback for callback in callbacks if session.is_chief or not _writes(callback)]
        model.stop_training = False
        self._model = model
        self._batches = any(_hears_batches(callback) for callback in callbacks)
        self._list = None
        if callbacks:
            per_epoch = ends.per_epoch or ends.total
            self._list = keras.callbacks.CallbackList(
                own, add_history=True, model=model, epochs=ends.epochs, steps=per_epoch, verbose=0
            )
        self._per_epoch = ends.per_epoch or ends.total

    def begin(self) -> None:
        if self._list is not None:
            self._list.on_train_begin()

    def end(self, metrics: Mapping[str, float]) -> None:
        if self._list is not None:
            self._list.on_train_end(dict(metrics))

    def hooks(self) -> Hooks:
        callbacks = self._list
        if callbacks is None:
            return Hooks()
        hooks = Hooks(
            epoch_begin=callbacks.on_epoch_begin,
            epoch_end=callbacks.on_epoch_end,
            wants_stop=lambda: bool(self._model.stop_training),
        )
        if self._batches:
            hooks.batch_begin = lambda step: callbacks.on_train_batch_begin(step % self._per_epoch)
            hooks.batch_end = lambda step, means: callbacks.on_train_batch_end(step % self._per_epoch, dict(means))
        return hooks


def _hears_batches(callback: Any) -> bool:
    """Keras' own callbacks have batch methods that mostly do nothing; those that were given a function or a frequency
    count.
    """
    import keras

    if type(callback).__module__.split(".")[0] == keras.__name__:
        frequency = getattr(callback, "save_freq", getattr(callback, "update_freq", "epoch"))
        return frequency != "epoch" or not vars(callback).keys().isdisjoint(BATCH_METHODS)
    base = keras.callbacks.Callback
    return any(getattr(type(callback), name, None) is not getattr(base, name) for name in BATCH_METHODS)


def _writes(callback: Any) -> bool:
    names = {kind.__name__ for kind in type(callback).__mro__}
    return bool(getattr(callback, "writes", False)) or not names.isdisjoint(WRITING)
