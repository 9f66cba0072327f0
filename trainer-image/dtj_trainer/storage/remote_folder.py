"""A place behind a URI that fsspec knows: an object store, or HDFS through its HTTP interface.

Files are uploaded under a temporary name and then moved by the server: a rename on HDFS, a copy on object stores, both
at once for whoever reads.
"""

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from dtj_trainer.errors import PeerLost, PreflightFailed
from dtj_trainer.storage.file_system import file_system
from dtj_trainer.storage.folder import TEMPORARY_PREFIX

ATTEMPTS = 5
"""Tries of one request; waits of 0.5, 1, 2 and 4 s between them."""
FINAL = (FileNotFoundError, FileExistsError, PermissionError, NotADirectoryError)

COPIED_BYTES = 5_000_000_000
"""What S3 copies at most in one request, which is how pyarrow moves."""

_T = TypeVar("_T")


class RemoteFolder:
    """A Folder in a store that other processes reach by the same URI."""

    shared = False

    def __init__(self, uri: str) -> None:
        self.name = uri.rstrip("/")
        self._system, self._root = _connect(self.name)

    def make(self) -> None:
        self._ask(lambda: self._system.makedirs(self._root, exist_ok=True))

    def names(self) -> list[str]:
        self._system.invalidate_cache()
        try:
            found = self._ask(lambda: self._system.ls(self._root, detail=False))
        except FileNotFoundError:
            return []
        return [path.rstrip("/").rsplit("/", 1)[-1] for path in found if path.rstrip("/") != self._root.rstrip("/")]

    def read(self, name: str) -> str | None:
        try:
            return str(self._ask(lambda: self._system.cat_file(self._at(name))), "utf-8")
        except FileNotFoundError:
            return None

    @contextlib.contextmanager
    def temporary(self, label: str) -> Iterator["_TemporaryFolder"]:
        place = f"{TEMPORARY_PREFIX}{os.uname().nodename}-{os.getpid()}-{label}"
        with tempfile.TemporaryDirectory(prefix="dtj-state-") as path:
            temporary = _TemporaryFolder(Path(path), self, place, set())
            try:
                yield temporary
            finally:
                with contextlib.suppress(Exception):
                    for name in temporary.left:
                        self.remove(f"{place}.{name}")

    def delete_temporary(self) -> None:
        for name in self.names():
            if name.startswith(TEMPORARY_PREFIX):
                self.remove(name)

    @contextlib.contextmanager
    def download(self, stem: str) -> Iterator[str]:
        path = tempfile.mkdtemp(prefix="dtj-state-")
        try:
            for name in self.names():
                if name.startswith(f"{stem}."):
                    with contextlib.suppress(FileNotFoundError):  # its writer has removed it meanwhile
                        self.get(name, Path(path) / name)
            yield str(Path(path) / stem)
        finally:
            shutil.rmtree(path, ignore_errors=True)

    def get(self, name: str, path: Path) -> None:
        self._ask(lambda: self._system.get_file(self._at(name), str(path)))

    def put(self, path: Path, name: str) -> None:
        above = self._at(name).rsplit("/", 1)[0]
        self._ask(lambda: self._system.makedirs(above, exist_ok=True))
        self._ask(lambda: self._system.put_file(str(path), self._at(name)))

    def move(self, old: str, new: str) -> None:
        """Put `old` in the place of `new`, which may exist."""
        source, target = self._at(old), self._at(new)
        if "webhdfs" in self._system.protocol:
            self._ask(lambda: self._rename(source, target))
        else:
            self._ask(lambda: self._system.mv(source, target))

    def moves(self, size: int) -> bool:
        """Whether a file of so many bytes can be moved."""
        return size <= COPIED_BYTES or "s3" not in self._system.protocol

    def remove(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._ask(lambda: self._system.rm_file(self._at(name)))

    def _at(self, name: str) -> str:
        return f"{self._root.rstrip('/')}/{name}"

    def _rename(self, source: str, target: str) -> None:
        """A rename that replaces: fsspec's own leaves an existing target as it is, and says nothing."""
        self._system._call("RENAME", method="put", path=source, destination=target, renameoptions="OVERWRITE")  # noqa: SLF001

    def _ask(self, request: Callable[[], _T]) -> _T:
        """`request()`, tried again where a network is between.

        Raises:
            PeerLost: the store gives no answer, or a bad one, each time.
        """
        for attempt in range(ATTEMPTS):
            try:
                return request()
            except FINAL:
                raise
            except Exception as error:
                if "No such file or directory" in str(error):  # as fsspec says it for pyarrow's drivers
                    raise FileNotFoundError(str(error)) from error
                if attempt == ATTEMPTS - 1:
                    raise PeerLost(
                        f"the service that holds {self.name} fails ({_first_line(error)}); check that it runs, "
                        "and its address"
                    ) from error
                time.sleep(0.5 * 2**attempt)
        raise AssertionError


@dataclass(frozen=True, slots=True)
class _TemporaryFolder:
    path: Path
    folder: RemoteFolder
    place: str
    """What its files begin with: not every store lists directories."""
    left: set[str]
    """What was carried over and is not moved yet."""

    def upload(self, names: Sequence[str]) -> None:
        """What cannot be moved is carried to its place at once: nobody looks for it before its index is there."""
        for name in names:
            path = self.path / name
            if self.folder.moves(path.stat().st_size):
                self.left.add(name)
                self.folder.put(path, f"{self.place}.{name}")
            else:
                self.folder.put(path, name)

    def commit(self, names: Sequence[str]) -> None:
        for name in names:
            if name in self.left:
                self.folder.move(f"{self.place}.{name}", name)
                self.left.remove(name)

    def delete(self, names: Sequence[str]) -> None:
        for name in names:
            self.folder.remove(name)


def _connect(uri: str) -> tuple[Any, str]:
    """The file system of a URI, and the path in it.

    Raises:
        PreflightFailed: its driver is not installed, or the URI is none.
    """
    try:
        return file_system(uri, {})
    except ImportError as error:
        raise PreflightFailed(f"{uri} needs a driver ({_first_line(error)}); install it in the image") from error
    except ValueError as error:
        raise PreflightFailed(f"{uri} is no place for checkpoints ({_first_line(error)}); check the URI") from error


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:200] if lines else type(error).__name__
