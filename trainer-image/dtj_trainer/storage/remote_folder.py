"""A folder at a URI that fsspec supports: an object store, or HDFS through its HTTP interface.

Files are uploaded under a temporary name and then moved by the server: a rename on HDFS, a copy on object stores; both
are atomic for readers.
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

from dtj_trainer.errors import PeerLost, PreflightFailed, first_line
from dtj_trainer.storage.file_system import file_system
from dtj_trainer.storage.folder import TEMPORARY_PREFIX

ATTEMPTS = 5
"""Tries of one request; waits of 0.5, 1, 2 and 4 s between them."""
FINAL = (FileNotFoundError, FileExistsError, PermissionError, NotADirectoryError)

COPIED_BYTES = 5_000_000_000
"""What S3 copies at most in one request, which is how pyarrow moves."""

_T = TypeVar("_T")


class RemoteFolder:
    """A Folder in a store that other processes access by the same URI."""

    shared = False

    def __init__(self, uri: str) -> None:
        self.name = uri.rstrip("/")
        self._system, self._root = _connect(self.name)

    def make(self) -> None:
        self._request(lambda: self._system.makedirs(self._root, exist_ok=True))

    def names(self) -> list[str]:
        self._system.invalidate_cache()
        try:
            found = self._request(lambda: self._system.ls(self._root, detail=False))
        except FileNotFoundError:
            return []
        return [path.rstrip("/").rsplit("/", 1)[-1] for path in found if path.rstrip("/") != self._root.rstrip("/")]

    def read(self, name: str) -> str | None:
        try:
            return str(self._request(lambda: self._system.cat_file(self._path_of(name))), "utf-8")
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
        self._request(lambda: self._system.get_file(self._path_of(name), str(path)))

    def put(self, path: Path, name: str) -> None:
        above = self._path_of(name).rsplit("/", 1)[0]
        self._request(lambda: self._system.makedirs(above, exist_ok=True))
        self._request(lambda: self._system.put_file(str(path), self._path_of(name)))

    def move(self, old: str, new: str) -> None:
        """Move `old` to `new`, which may exist."""
        source, target = self._path_of(old), self._path_of(new)
        if "webhdfs" in self._system.protocol:
            self._request(lambda: self._rename(source, target))
        else:
            self._request(lambda: self._system.mv(source, target))

    def rename(self, old: str, new: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            if self.moves(self._request(lambda: self._system.size(self._path_of(old))) or 0):
                self.move(old, new)
            else:
                self.remove(old)

    def moves(self, size: int) -> bool:
        """Return whether the store can move a file of so many bytes."""
        return size <= COPIED_BYTES or "s3" not in self._system.protocol

    def remove(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._request(lambda: self._system.rm_file(self._path_of(name)))

    def _path_of(self, name: str) -> str:
        return f"{self._root.rstrip('/')}/{name}"

    def _rename(self, source: str, target: str) -> None:
        """Rename and replace the target: fsspec's rename silently keeps an existing target."""
        self._system._call("RENAME", method="put", path=source, destination=target, renameoptions="OVERWRITE")  # noqa: SLF001

    def _request(self, request: Callable[[], _T]) -> _T:
        """Call `request()`, with retries for network errors.

        Raises:
            PeerLost: every try got no response, or an error.
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
                        f"the service that holds {self.name} fails ({first_line(error)}); check that it runs, "
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
        """Upload the files; those too large to move get their final names: they are not read before their index."""
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

    def delete_others(self) -> None:
        for name in self.folder.names():
            if name.startswith(TEMPORARY_PREFIX) and not name.startswith(f"{self.place}."):
                self.folder.remove(name)


def _connect(uri: str) -> tuple[Any, str]:
    """Return the file system of a URI, and the path in it.

    Raises:
        PreflightFailed: its driver is not installed, or the URI is invalid.
    """
    try:
        return file_system(uri, {})
    except ImportError as error:
        raise PreflightFailed(f"{uri} needs a driver ({first_line(error)}); install it in the image") from error
    except ValueError as error:
        raise PreflightFailed(f"{uri} is no place for checkpoints ({first_line(error)}); check the URI") from error
