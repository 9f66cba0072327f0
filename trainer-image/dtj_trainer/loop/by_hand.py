"""dtj.session: everything prepared, the loop left to the user."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dtj_trainer import running
from dtj_trainer.data import feed
from dtj_trainer.errors import Preempted, PreemptedUnsaved
from dtj_trainer.loop.ending import ending
from dtj_trainer.observe.events import Events
from dtj_trainer.running import Session
from dtj_trainer.state.checkpoints import Checkpoints
from dtj_trainer.state.markers import Owner


class Job:
    """What a program needs to train by hand under the strategy of its job."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._events = Events(session.environment.checkpoint.logs if session.is_chief else "")
        self._reported = (0, time.monotonic())
        self.strategy = session.strategy
        self.role = session.role
        self.index = session.index
        self.is_chief = session.is_chief
        self.checkpoints = SharedCheckpoints(session)

    @property
    def input_context(self) -> Any:
        """A tf.distribute.InputContext: this process among the input pipelines."""
        return feed.input_context(self._session)

    def report(self, *, step: int, loss: Any = None, **metrics: Any) -> None:
        """Tell how far the training is, after a step; leaves the process when it was asked to.

        Raises:
            Preempted: somebody asked this process to leave; what `checkpoints.save` wrote last is kept.
        """
        before, since = self._reported
        now = time.monotonic()
        self._reported = (step, now)
        numbers = {name: float(value) for name, value in metrics.items()}
        shown = None if loss is None else float(loss)
        self._session.link.progress(step, steps=max(0, step - before), seconds=now - since, loss=shown, metrics=numbers)
        self._events.write(step, {"loss": shown, **numbers})
        if self._session.link.preempted.is_set():
            saved = self.checkpoints.saved_step
            if saved is None:
                raise PreemptedUnsaved(f"asked to leave at step {step}, with nothing saved")
            raise Preempted(f"asked to leave at step {step}; saved step {saved}")


class SharedCheckpoints:
    """Checkpoints in the job's directory: the chief commits, the others take part where they have to."""

    def __init__(self, session: Session) -> None:
        settings = session.environment.checkpoint
        self._session = session
        self._owner = None
        if settings.directory and session.is_chief:
            self._owner = Owner(Path(settings.directory), session.environment.uid, session.environment.attempt)
        self._files = Checkpoints(settings.directory, settings.keep, self._owner)
        self._enabled = bool(settings.directory)
        if self._owner is not None:
            self._files.claim()

    @property
    def saved_step(self) -> int | None:
        """The newest step saved or restored by this process."""
        return self._files.saved_step

    def restore(self, **objects: Any) -> int | None:
        """Restore the newest checkpoint into trackables, on every process; its step, or None without one."""
        if not self._enabled:
            return None
        name = self._session.board.from_chief(self._files.latest())
        if not name:
            return None
        self._files.await_visible(name)
        self._files.restore(name, objects)
        return self._files.saved_step

    def save(self, step: int, **objects: Any) -> None:
        """Save trackables as the checkpoint of `step`; every process has to call it."""
        if not self._enabled:
            return
        started = time.monotonic()
        self._files.save(step, objects, lambda _: None)
        if self._owner is not None:
            self._session.link.checkpoint(step, time.monotonic() - started)


@contextmanager
def session() -> Iterator[Job]:
    """Everything prepared: TF_CONFIG read, peers up, strategy chosen, built and made the default."""
    prepared = running.ensure(prepared=True)
    with ending(prepared):
        yield Job(prepared)
        prepared.board.barrier()
