"""Checkpoints of TensorFlow objects in a directory: written aside, then made visible in one rename.

A checkpoint is visible when the file `checkpoint` names it; everything before that may be cut off at any moment.
"""

import contextlib
import errno
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dtj_trainer.errors import PreflightFailed, TrainerError, UserError
from dtj_trainer.failures import classify
from dtj_trainer.state.files import flush, write_whole
from dtj_trainer.state.markers import Owner
from dtj_trainer.strategy import first_values

INDEX = "checkpoint"
VISIBLE_SECONDS = 20.0
_NAME = re.compile(r"^ckpt-(\d+)$")
_LISTED = re.compile(r'^(?:all_)?model_checkpoint_paths?: "([^"]+)"$', re.MULTILINE)


class Checkpoints:
    """The checkpoints in `directory`. Only a process with an owner's claim commits; others write into a scratch."""

    def __init__(self, directory: str, keep: int, owner: Owner | None) -> None:
        self.directory = Path(directory)
        self.keep = keep
        self.owner = owner
        self.saved_step: int | None = None

    def claim(self) -> None:
        """Become the writer, and clear away what writers before left half done.

        Raises:
            Fenced: a newer attempt is the writer.
            PreflightFailed: the directory cannot be written.
        """
        assert self.owner is not None
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            self.owner.claim()
        except OSError as error:
            raise PreflightFailed(
                f"the checkpoint directory {self.directory} cannot be written ({error.strerror or error}); "
                "mount a writable volume there, or set another directory"
            ) from error
        for left in self.directory.glob(".writing-*"):
            shutil.rmtree(left, ignore_errors=True)

    def latest(self) -> str:
        """Name of the newest whole checkpoint; empty if there is none."""
        return next((name for name in self._visible() if self._is_whole(name)), "")

    def kept(self) -> list[tuple[int, str]]:
        """Step and name of every whole checkpoint, the oldest first."""
        found = [(int(match[1]), name) for name in self._visible() if (match := _NAME.match(name))]
        return sorted((step, name) for step, name in found if self._is_whole(name))

    def await_visible(self, name: str) -> None:
        """Wait until this process sees what the chief sees: network file systems cache listings."""
        deadline = time.monotonic() + VISIBLE_SECONDS
        while not self._is_whole(name):
            if time.monotonic() > deadline:
                raise PreflightFailed(
                    f"the chief resumes from {self.directory / name} and this process cannot see it; "
                    "mount the same volume in every replica"
                )
            time.sleep(0.05)
            with contextlib.suppress(OSError):
                os.listdir(self.directory)  # noqa: PTH208 - asks the server anew

    def restore(self, name: str, objects: Mapping[str, Any]) -> None:
        """Put the values of a checkpoint into `objects`, all of them.

        Raises:
            PreflightFailed: the checkpoint belongs to another model.
        """
        import tensorflow as tf

        prefix = str(self.directory / name)
        checkpoint = tf.train.Checkpoint(**objects)
        try:
            checkpoint.read(prefix).assert_existing_objects_matched()
        except (AssertionError, ValueError, tf.errors.InvalidArgumentError, tf.errors.NotFoundError) as error:
            raise PreflightFailed(
                f"the checkpoint {prefix} is of another model ({_first_line(error)}); "
                "use the model that wrote it, or another checkpoint directory"
            ) from error
        first_values.known(tf.distribute.get_strategy(), tf.train.TrackableView(checkpoint).descendants())
        found = _NAME.match(name)
        self.saved_step = int(found[1]) if found else None

    def save(self, step: int, objects: Mapping[str, Any], note: Callable[[Path], None]) -> None:
        """Write the checkpoint of `step`; `note` writes what stands beside it, just before it becomes visible.

        Raises:
            Fenced: a newer attempt has taken over; nothing was changed.
            UserError: the disk is full.
        """
        name = f"ckpt-{step}"
        aside = self._aside(step)
        try:
            self._write(aside / name, objects)
            if self.owner is not None:
                self._commit(aside, name, note)
        except TrainerError:
            raise
        except Exception as error:
            self._explain(error)
            raise
        finally:
            shutil.rmtree(aside, ignore_errors=True)
        self.saved_step = step

    def _explain(self, error: Exception) -> None:
        """Raise what really happened, where that is known."""
        if self.owner is not None:
            self.owner.check()
        if _disk_is_full(error):
            raise UserError(
                f"the disk of {self.directory} is full, no checkpoint could be saved; free space or use a larger volume"
            ) from error

    def _aside(self, step: int) -> Path:
        if self.owner is None:
            return Path(tempfile.mkdtemp(prefix="dtj-checkpoint-"))
        aside = self.directory / f".writing-{self.owner.attempt}-{os.getpid()}-{step}"
        aside.mkdir(parents=True, exist_ok=True)
        return aside

    @staticmethod
    def _write(prefix: Path, objects: Mapping[str, Any]) -> None:
        import tensorflow as tf

        tf.train.Checkpoint(**objects).write(str(prefix))

    def _commit(self, aside: Path, name: str, note: Callable[[Path], None]) -> None:
        assert self.owner is not None
        parts = sorted(aside.glob(f"{name}.*"), key=lambda part: part.suffix == ".index")
        for part in parts:
            flush(part)
        self.owner.check()
        for part in parts:
            part.replace(self.directory / part.name)
        flush(self.directory)
        note(self.directory)
        kept = [name, *(other for other in self._visible() if other != name)][: self.keep]
        lines = [f'model_checkpoint_path: "{name}"', *(f'all_model_checkpoint_paths: "{k}"' for k in reversed(kept))]
        write_whole(self.directory / INDEX, "\n".join(lines) + "\n")
        self._prune(kept)

    def _prune(self, kept: list[str]) -> None:
        for path in self.directory.glob("ckpt-*"):
            stem = path.name.split(".", 1)[0]
            if _NAME.match(stem) and stem not in kept:
                with contextlib.suppress(OSError):
                    path.unlink()

    def _visible(self) -> list[str]:
        """Names that the file `checkpoint` lists, the newest first."""
        try:
            listed = _LISTED.findall((self.directory / INDEX).read_text(encoding="utf-8"))
        except OSError:
            return []
        if not listed:
            return []
        newest, *others = (Path(path).name for path in listed)
        return [newest, *(name for name in reversed(others) if name != newest)]

    def _is_whole(self, name: str) -> bool:
        return (self.directory / f"{name}.index").exists() and any(self.directory.glob(f"{name}.data-*"))


def _disk_is_full(error: Exception) -> bool:
    full = isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EDQUOT}
    return full or classify(error).message.startswith("the disk is full")


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:200] if lines else type(error).__name__
