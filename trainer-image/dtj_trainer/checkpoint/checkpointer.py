"""Checkpoints of TensorFlow objects in a folder: made temporary, then moved in, the file `checkpoint` last.

A checkpoint is visible when the file `checkpoint` names it; everything before that may be cut off at any moment. The
values are taken on the training's thread, and written and moved beside it.
"""

import errno
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from dtj_trainer.checkpoint import value_copy
from dtj_trainer.checkpoint.background import Background
from dtj_trainer.checkpoint.owner_file import Done, Owner
from dtj_trainer.errors import PeerLost, PreflightFailed, TrainerError, UserError
from dtj_trainer.exit_status import classify
from dtj_trainer.storage.folder import TemporaryFolder
from dtj_trainer.storage.open import open_folder
from dtj_trainer.strategy.initial_values import mark_restored

INDEX = "checkpoint"
VISIBLE_SECONDS = 20.0
FLEETING = {errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.ENOTCONN, errno.EHOSTDOWN, errno.EHOSTUNREACH}
"""What a volume over the network says while its server is away; the next time it may be back."""
_NAME = re.compile(r"^ckpt-(\d+)$")
_LISTED = re.compile(r'^(?:all_)?model_checkpoint_paths?: "([^"]+)"$', re.MULTILINE)

Notes = Mapping[str, str]
"""Small files that stand beside a checkpoint, by name; they appear just before it."""


class Checkpoints:
    """The checkpoints in `directory`, a path or a URI. Only a process with an owner's claim writes."""

    def __init__(self, directory: str, keep: int, owner: Owner | None) -> None:
        self.place = open_folder(directory)
        self.keep = keep
        self.owner = owner
        self.saved_step: int | None = None
        """The newest step that is saved, or restored."""
        self._background = Background()

    def claim(self) -> None:
        """Become the writer, and clear away what writers before left half done.

        Raises:
            Fenced: a newer attempt is the writer.
            PreflightFailed: the directory cannot be written.
            PeerLost: not now.
        """
        assert self.owner is not None
        try:
            self.place.make()
            self.owner.claim()
        except OSError as error:
            if error.errno in FLEETING:
                raise self._lost(error) from error
            raise PreflightFailed(
                f"the checkpoint directory {self.place.name} cannot be written ({error.strerror or error}); "
                "mount a writable volume there, or set another directory"
            ) from error

    def latest(self) -> str:
        """Name of the newest whole checkpoint; empty if there is none."""
        there = self.place.names()
        return next((name for name in self._visible() if _is_whole(name, there)), "")

    def kept(self) -> list[tuple[int, str]]:
        """Step and name of every whole checkpoint, the oldest first."""
        there = self.place.names()
        found = [(int(match[1]), name) for name in self._visible() if (match := _NAME.match(name))]
        return sorted((step, name) for step, name in found if _is_whole(name, there))

    def await_visible(self, name: str) -> None:
        """Wait until this process sees what the chief sees: network file systems cache listings."""
        deadline = time.monotonic() + VISIBLE_SECONDS
        while not _is_whole(name, self.place.names()):
            if time.monotonic() > deadline:
                raise PreflightFailed(
                    f"the chief resumes from {self.place.name}/{name} and this process cannot see it; "
                    "mount the same volume in every replica"
                )
            time.sleep(0.05)

    def restore(self, name: str, objects: Mapping[str, Any]) -> None:
        """Put the values of a checkpoint into `objects`, all of them.

        Raises:
            PreflightFailed: the checkpoint belongs to another model.
        """
        import tensorflow as tf

        checkpoint = tf.train.Checkpoint(**objects)
        with self.place.download(name) as prefix:
            try:
                checkpoint.read(prefix, self._options()).assert_existing_objects_matched()
            except (AssertionError, ValueError, tf.errors.InvalidArgumentError, tf.errors.NotFoundError) as error:
                raise PreflightFailed(
                    f"the checkpoint {self.place.name}/{name} is of another model ({_first_line(error)}); "
                    "use the model that wrote it, or another checkpoint directory"
                ) from error
        mark_restored(tf.distribute.get_strategy(), tf.train.TrackableView(checkpoint).descendants())
        found = _NAME.match(name)
        self.saved_step = int(found[1]) if found else None

    def save(self, step: int, objects: Mapping[str, Any], notes: Notes, complete: Callable[[], None]) -> None:
        """Begin to save the present values as the checkpoint of `step`, after the save before it; `complete` is called
        in another thread when all is done.

        Raises:
            Fenced: a newer attempt has taken over; nothing was changed.
            UserError: the disk is full.
            PeerLost: the volume or the store fails.
        """
        self.wait()
        writing = None if _on_servers() else value_copy.take(objects)
        if self.owner is None:
            if writing is None:
                self._take_part(objects)
            return
        with ExitStack() as stack, self._explained():
            temporary = stack.enter_context(self.place.temporary(f"{self.owner.attempt}-{step}"))
            if writing is None:
                self._write(temporary.path / f"ckpt-{step}", objects)
            self._background.start(partial(self._end, stack.pop_all(), temporary, step, writing, notes, complete))

    def finish(self, done: Done) -> None:
        """Leave the note that the job is done, on the writer; raises as `save`."""
        if self.owner is not None:
            with self._explained():
                self.owner.finish(done)

    def wait(self) -> None:
        """Return when the last save is complete; raises what went wrong in it."""
        self._background.wait()

    def linger(self, seconds: float) -> None:
        """Give a save that has begun so much time to be complete."""
        self._background.linger(seconds)

    def look(self) -> None:
        """Raise what went wrong in the last save, if it has ended."""
        self._background.look()

    def _end(
        self,
        stack: ExitStack,
        temporary: TemporaryFolder,
        step: int,
        writing: value_copy.Writing | None,
        notes: Notes,
        complete: Callable[[], None],
    ) -> None:
        """What is left of a save when the values are taken."""
        with stack, self._explained():
            if writing is not None:
                writing(temporary.path / f"ckpt-{step}")
            self._commit(temporary, f"ckpt-{step}", notes)
        self.saved_step = step
        complete()

    def _commit(self, temporary: TemporaryFolder, name: str, notes: Notes) -> None:
        assert self.owner is not None
        found = (path.name for path in temporary.path.glob(f"{name}.*"))
        parts = sorted(found, key=lambda part: part.endswith(".index"))
        there = self.place.names()
        kept = [name, *(other for other in self._visible() if other != name)][: self.keep]
        lines = [f'model_checkpoint_path: "{name}"', *(f'all_model_checkpoint_paths: "{k}"' for k in reversed(kept))]
        for beside, text in {**notes, INDEX: "\n".join(lines) + "\n"}.items():
            (temporary.path / beside).write_text(text, encoding="utf-8")
        temporary.upload([*parts, *notes, INDEX])
        self.owner.check()
        temporary.commit([*parts, *notes])
        temporary.commit([INDEX])
        temporary.delete([each for each in there if _NAME.match(stem := each.split(".", 1)[0]) and stem not in kept])

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Raise what really happened, where that is known."""
        try:
            yield
        except TrainerError:
            raise
        except Exception as error:
            if self.owner is not None:
                self.owner.check()
            if _disk_is_full(error):
                raise UserError(
                    f"the disk of {self.place.name} is full, no checkpoint could be saved; "
                    "free space or use a larger volume"
                ) from error
            # Not there although nobody else writes here: a store has moved it, and its answer was lost.
            if isinstance(error, FileNotFoundError) or (isinstance(error, OSError) and error.errno in FLEETING):
                raise self._lost(error) from error
            raise

    def _lost(self, error: OSError) -> PeerLost:
        """What may be over the next time: to go on from the last save costs less than to end."""
        return PeerLost(f"{self.place.name} cannot be written ({_first_line(error)}); look at its volume or store")

    def _write(self, prefix: Path, objects: Mapping[str, Any]) -> None:
        import tensorflow as tf

        tf.train.Checkpoint(**objects).write(str(prefix), self._options())

    def _take_part(self, objects: Mapping[str, Any]) -> None:
        """Read what a save reads, with the others, for nobody."""
        with tempfile.TemporaryDirectory(prefix="dtj-state-") as path:
            self._write(Path(path) / "ckpt", objects)

    def _options(self) -> Any:
        """Servers write and read their part of a shared directory themselves; elsewhere the coordinator does."""
        import tensorflow as tf

        if self.place.shared or not _on_servers():
            return None
        return tf.train.CheckpointOptions(experimental_io_device=tf.config.list_logical_devices("CPU")[0].name)

    def _visible(self) -> list[str]:
        """Names that the file `checkpoint` lists, the newest first."""
        listed = _LISTED.findall(self.place.read(INDEX) or "")
        if not listed:
            return []
        newest, *others = (Path(path).name for path in listed)
        return [newest, *(name for name in reversed(others) if name != newest)]


def _is_whole(name: str, there: Sequence[str]) -> bool:
    return f"{name}.index" in there and any(each.startswith(f"{name}.data-") for each in there)


def _on_servers() -> bool:
    """Whether variables live in other processes, and need not fit into this one."""
    import tensorflow as tf

    return isinstance(tf.distribute.get_strategy(), tf.distribute.ParameterServerStrategy)


def _disk_is_full(error: Exception) -> bool:
    full = isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EDQUOT}
    return full or classify(error).message.startswith("the disk is full")


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:200] if lines else type(error).__name__
