"""A directory on a disk of this machine, or on a volume that every pod mounts."""

import contextlib
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from dtj_trainer.errors import PeerLost
from dtj_trainer.storage.folder import TEMPORARY_PREFIX

READ_SECONDS = 0.5
"""Between two tries of a read that fails."""


class LocalFolder:
    """A Folder in the file system, committed by renames."""

    shared = True

    def __init__(self, directory: str) -> None:
        self.name = directory
        self._path = Path(directory)

    def make(self) -> None:
        self._path.mkdir(parents=True, exist_ok=True)

    def names(self) -> list[str]:
        try:
            return os.listdir(self._path)  # noqa: PTH208 - asks a network file system's server again
        except FileNotFoundError:
            return []

    def read(self, name: str) -> str | None:
        path = self._path / name
        for last in (False, False, True):
            try:
                return path.read_text(encoding="utf-8")
            except (FileNotFoundError, NotADirectoryError):
                return None
            except OSError as error:  # ESTALE among them: a server of files has just got another one of that name
                if last:
                    words = error.strerror or error
                    raise PeerLost(f"{path} cannot be read ({words}); look at its volume and its rights") from error
                time.sleep(READ_SECONDS)
        raise AssertionError

    def rename(self, old: str, new: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            (self._path / old).replace(self._path / new)

    @contextlib.contextmanager
    def temporary(self, label: str) -> Iterator["_TemporaryFolder"]:
        path = self._path / f"{TEMPORARY_PREFIX}{os.getpid()}-{label}"
        path.mkdir(parents=True, exist_ok=True)
        try:
            yield _TemporaryFolder(path, self._path)
        finally:
            shutil.rmtree(path, ignore_errors=True)

    def delete_temporary(self) -> None:
        for left in self._path.glob(f"{TEMPORARY_PREFIX}*"):
            shutil.rmtree(left, ignore_errors=True)

    @contextlib.contextmanager
    def download(self, stem: str) -> Iterator[str]:
        yield str(self._path / stem)


@dataclass(frozen=True, slots=True)
class _TemporaryFolder:
    path: Path
    folder: Path

    def upload(self, names: Sequence[str]) -> None:
        for name in names:
            _flush(self.path / name)

    def commit(self, names: Sequence[str]) -> None:
        for name in names:
            (self.path / name).replace(self.folder / name)
        with contextlib.suppress(OSError):  # not every file system can do this for a directory
            _flush(self.folder)

    def delete(self, names: Sequence[str]) -> None:
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                (self.folder / name).replace(self.path / name)

    def delete_others(self) -> None:
        for left in self.folder.glob(f"{TEMPORARY_PREFIX}*"):
            if left != self.path:
                shutil.rmtree(left, ignore_errors=True)


def _flush(path: Path) -> None:
    """Flush a file or directory to disk (fsync)."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
