"""Writes, commits and restores checkpoints of TensorFlow objects in a folder.

The files of a checkpoint are written into a temporary folder and then committed, the file `checkpoint` last. A
checkpoint is visible when that file names it; the process may die at any moment before. Values are copied on the
training's thread; another thread writes and commits the files.
"""

import errno
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for_futures
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from dtj_trainer.checkpoint import done_file, index_file, value_copy
from dtj_trainer.checkpoint.broken import BrokenCheckpoint, defect
from dtj_trainer.checkpoint.done_file import DoneFile
from dtj_trainer.checkpoint.owner_file import OwnerFile
from dtj_trainer.errors import PeerLost, PreflightFailed, TrainerError, UserError, first_line
from dtj_trainer.exit_status import exit_status_of
from dtj_trainer.storage.folder import TemporaryFolder
from dtj_trainer.storage.open import open_folder
from dtj_trainer.strategy.initial_values import mark_restored

VISIBLE_SECONDS = 20.0
"""How long a process waits until it sees the checkpoint that the chief sees."""
TRANSIENT_ERRORS = {errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.ENOTCONN, errno.EHOSTDOWN, errno.EHOSTUNREACH}
"""What a network volume reports while its server is away; a later attempt may succeed."""
SmallFiles = Mapping[str, str]
"""The texts of small files beside a checkpoint, by name; they are committed just before it."""


class Checkpointer:
    """The checkpoints in `directory`, a path or a URI; only a process with an owner file writes."""

    def __init__(self, directory: str, keep: int, owner: OwnerFile | None) -> None:
        self.folder = open_folder(directory)
        self.keep = keep
        self.owner = owner
        self.saved_step: int | None = None
        """The newest step that is saved, or restored."""
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="dtj-save")
        self._pending: Future[None] | None = None
        """The last save, until its error, if any, is raised."""

    def claim(self) -> None:
        """Become the writer, and remove the temporary files of earlier writers.

        Raises:
            Fenced: a newer attempt is the writer.
            PreflightFailed: the directory cannot be written.
            PeerLost: the volume or store does not answer at the moment.
        """
        assert self.owner is not None
        try:
            self.folder.make()
            self.owner.claim()
            if self.folder.name != self.owner.folder.name:  # a further training's: the claim is on the job's directory
                self.folder.delete_temporary()
        except OSError as error:
            if error.errno in TRANSIENT_ERRORS:
                raise self._store_lost(error) from error
            raise PreflightFailed(
                f"the checkpoint directory {self.folder.name} cannot be written ({error.strerror or error}); "
                "mount a writable volume there, or set another directory"
            ) from error

    def all_steps(self) -> list[int]:
        """Return the steps of all complete checkpoints, the oldest first."""
        files, listed = self.folder.names(), index_file.read(self.folder) or []
        found = [(step, name) for name in listed if (step := index_file.step_of(name)) is not None]
        return sorted(step for step, name in found if index_file.is_complete(name, files))

    def wait_until_visible(self, name: str) -> None:
        """Wait until this process sees the checkpoint that the chief sees: network file systems cache listings.

        Raises:
            PreflightFailed: it does not appear; the process has another volume.
        """
        deadline = time.monotonic() + VISIBLE_SECONDS
        while not index_file.is_complete(name, self.folder.names()):
            if time.monotonic() > deadline:
                raise PreflightFailed(
                    f"the chief resumes from {self.folder.name}/{name} and this process cannot see it; "
                    "mount the same volume in every replica"
                )
            time.sleep(0.05)

    def restore(self, name: str, objects: Mapping[str, object]) -> None:
        """Assign the values of a checkpoint to all of `objects`.

        Raises:
            BrokenCheckpoint: it cannot be read as a whole; some values may have been assigned.
            PreflightFailed: it belongs to another model.
        """
        import tensorflow as tf

        checkpoint = tf.train.Checkpoint(**objects)
        with self.folder.download(name) as prefix:
            try:
                checkpoint.read(prefix, self._options()).assert_existing_objects_matched()
            except (AssertionError, ValueError, IndexError, tf.errors.OpError) as error:
                if why := defect(prefix, TRANSIENT_ERRORS):
                    raise BrokenCheckpoint(why) from error
                mismatch = (AssertionError, ValueError, tf.errors.InvalidArgumentError, tf.errors.NotFoundError)
                if not isinstance(error, mismatch):
                    raise
                raise PreflightFailed(
                    f"the checkpoint {self.folder.name}/{name} is of another model ({first_line(error)}); "
                    "use the model that wrote it, or another checkpoint directory"
                ) from error
        mark_restored(tf.distribute.get_strategy(), tf.train.TrackableView(checkpoint).descendants())
        self.saved_step = index_file.step_of(name)

    def save(
        self, step: int, objects: Mapping[str, object], small_files: SmallFiles, on_saved: Callable[[], None]
    ) -> None:
        """Begin to save the current values as the checkpoint of `step`, after the earlier save is complete.

        `on_saved` is called in another thread when the checkpoint is visible.

        Raises:
            Fenced: a newer attempt has taken over; nothing was changed.
            UserError: the disk is full.
            PeerLost: the volume or the store fails.
        """
        self.wait_until_finished()
        write = None if _on_servers() else value_copy.copy_values(objects)
        if self.owner is None:
            if write is None:
                self._join_reads(objects)
            return
        with ExitStack() as stack, self.explain_errors():
            temporary = stack.enter_context(self.folder.temporary(f"{self.owner.attempt}-{step}"))
            if write is None:
                self._write(temporary.path / f"ckpt-{step}", objects)
            finish = partial(self._finish_save, stack.pop_all(), temporary, step, write, small_files, on_saved)
            self._pending = self._writer.submit(finish)

    def write_done_file(self, done: DoneFile) -> None:
        """Write done.json, on the writer; raises as `save`."""
        if self.owner is not None:
            with self.explain_errors():
                done_file.write(self.owner, done)

    def wait_until_finished(self) -> None:
        """Return when the last save is complete; raises its error."""
        self.wait_at_most(None)
        self.check_for_errors()

    def wait_at_most(self, seconds: float | None) -> None:
        """Return when the last save has succeeded or failed, or after `seconds`."""
        if self._pending is not None:
            wait_for_futures([self._pending], seconds)

    def check_for_errors(self) -> None:
        """Raise the error of the last save, once, if that has ended."""
        if self._pending is not None and self._pending.done():
            ended, self._pending = self._pending, None
            ended.result()

    def _finish_save(
        self,
        stack: ExitStack,
        temporary: TemporaryFolder,
        step: int,
        write: value_copy.Write | None,
        small_files: SmallFiles,
        on_saved: Callable[[], None],
    ) -> None:
        """Write the copied values, if TensorFlow has not, and commit the checkpoint."""
        with stack, self.explain_errors():
            if write is not None:
                write(temporary.path / f"ckpt-{step}")
            self._commit(temporary, f"ckpt-{step}", small_files)
        self.saved_step = step
        on_saved()

    def _commit(self, temporary: TemporaryFolder, name: str, small_files: SmallFiles) -> None:
        """Move the files of a checkpoint into the folder, and remove the oldest checkpoints."""
        assert self.owner is not None
        parts = sorted(
            (path.name for path in temporary.path.glob(f"{name}.*")), key=lambda part: part.endswith(".index")
        )
        files = self.folder.names()
        listed = index_file.read(self.folder) or []
        kept = [name, *(other for other in listed if other != name)][: self.keep]
        for file, text in {**small_files, index_file.NAME: index_file.text(kept)}.items():
            (temporary.path / file).write_text(text, encoding="utf-8")
        temporary.upload([*parts, *small_files, index_file.NAME])
        self.owner.confirm(temporary)
        temporary.commit([*parts, *small_files])
        temporary.commit([index_file.NAME])
        stems = {file: file.split(".", 1)[0] for file in files}
        temporary.delete([f for f, stem in stems.items() if index_file.step_of(stem) is not None and stem not in kept])

    @contextmanager
    def explain_errors(self) -> Iterator[None]:
        """Replace an error by its cause, if that is known: fenced, disk full, store unreachable."""
        try:
            yield
        except TrainerError:
            raise
        except Exception as error:
            if self.owner is not None:
                self.owner.check()
            if _disk_is_full(error):
                raise UserError(
                    f"the disk of {self.folder.name} is full, no checkpoint could be saved; "
                    "free space or use a larger volume"
                ) from error
            # A file is missing although nobody else writes here: a store has moved it, and its answer was lost.
            if isinstance(error, FileNotFoundError) or (isinstance(error, OSError) and error.errno in TRANSIENT_ERRORS):
                raise self._store_lost(error) from error
            raise

    def _store_lost(self, error: OSError) -> PeerLost:
        """Return the error of a failure that may be temporary: a restart from the last save costs less than to end."""
        return PeerLost(f"{self.folder.name} cannot be written ({first_line(error)}); look at its volume or store")

    def _write(self, prefix: Path, objects: Mapping[str, object]) -> None:
        import tensorflow as tf

        tf.train.Checkpoint(**objects).write(str(prefix), self._options())

    def _join_reads(self, objects: Mapping[str, object]) -> None:
        """Read the variables that the chief saves, because reading them is a collective; discard the values."""
        with tempfile.TemporaryDirectory(prefix="dtj-state-") as path:
            self._write(Path(path) / "ckpt", objects)

    def _options(self) -> object:
        """Let parameter servers write and read their part of a shared directory; elsewhere the coordinator does."""
        import tensorflow as tf

        if self.folder.shared or not _on_servers():
            return None
        return tf.train.CheckpointOptions(experimental_io_device=tf.config.list_logical_devices("CPU")[0].name)


def _on_servers() -> bool:
    """Return whether variables are on parameter servers; they may not fit into this process."""
    import tensorflow as tf

    return isinstance(tf.distribute.get_strategy(), tf.distribute.ParameterServerStrategy)


def _disk_is_full(error: Exception) -> bool:
    full = isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EDQUOT}
    return full or exit_status_of(error).message.startswith("the disk is full")
