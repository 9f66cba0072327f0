"""Data files, on this machine or at a URI that fsspec supports."""

import glob
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from dtj_trainer.errors import PreflightFailed, first_line
from dtj_trainer.storage.file_system import file_system

Files: TypeAlias = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
"""A path, a directory, a pattern with `*` or, through directories, `**`, a URI, or several of these."""

ATTEMPTS = 4
"""Readings of a remote block before it counts as unreadable; waits of 0.5, 1 and 2 s between them."""


@dataclass(frozen=True)
class File:
    """A data file; `system` is an fsspec file system, None for a local file."""

    name: str
    path: str
    size: int
    system: Any = None

    def open(self) -> Any:
        return Path(self.path).open("rb") if self.system is None else self.system.open(self.path, "rb")

    def for_arrow(self) -> Any:
        """Open for pyarrow, with its own reader where it has one, which does not call Python for each piece."""
        import pyarrow as pa

        if self.system is None:
            return pa.OSFile(self.path)
        native = self.system.fs if hasattr(self.system, "fs") else None
        return native.open_input_file(self.path) if isinstance(native, pa.fs.FileSystem) else self.open()

    def bytes(self, offset: int, length: int) -> bytes:
        with explain_read_errors(self.name), self.open() as file:
            file.seek(offset)
            found: bytes = file.read(length)
        if len(found) < length:
            raise PreflightFailed(f"{self.name} is shorter than when the job began; do not change data during a job")
        return found

    def read_with_retries(self, read: Any) -> Any:
        """Call `read()`, with a few retries for remote files."""
        for attempt in range(ATTEMPTS if self.system is not None else 1):
            try:
                return read()
            except PreflightFailed:
                if self.system is None or attempt == ATTEMPTS - 1:
                    raise
                time.sleep(0.5 * 2**attempt)
        raise AssertionError


def find(caller: str, files: Files, suffix: str, storage: Mapping[str, Any] | None = None) -> list[File]:
    """Return the files of `files`; those of directories and patterns sorted by name.

    Raises:
        PreflightFailed: there is none, or one is empty or cannot be reached.
    """
    given = [files] if isinstance(files, str | os.PathLike) else list(files)
    found = [file for each in given for file in _expand(os.fspath(each), suffix, storage or {})]
    if not found:
        raise PreflightFailed(f"{caller} was given no files; name at least one")
    for file in found:
        if file.size == 0:
            raise PreflightFailed(f"the data file {file.name} is empty; write it again, or leave it out")
    return found


@contextmanager
def explain_read_errors(name: str) -> Iterator[None]:
    """Turn read errors of a file into a PreflightFailed of one sentence."""
    try:
        yield
    except PreflightFailed:
        raise
    except FileNotFoundError as error:
        raise PreflightFailed(f"the data file {name} does not exist; check the path and the volume") from error
    except PermissionError as error:
        raise PreflightFailed(
            f"the data file {name} may not be read by user {os.getuid()}; change its permissions or the pod's runAsUser"
        ) from error
    except ModuleNotFoundError as error:
        raise PreflightFailed(f"{name} needs the Python package {error.name}; install it in the image") from error
    except ImportError as error:
        raise PreflightFailed(
            f"{name} cannot be read without a driver ({first_line(error)}); install it in the image"
        ) from error
    except Exception as error:
        if any(word in type(error).__name__ for word in ("ConnectionError", "Timeout")):  # requests, botocore, aiohttp
            raise PreflightFailed(
                f"the service that holds {name} does not answer; check its address and that it runs"
            ) from error
        raise PreflightFailed(
            f"the data file {name} cannot be read ({first_line(error)}); check the file and the service that holds it"
        ) from error


def needs(caller: str, package: str) -> None:
    """Say in one sentence that an optional package is missing."""
    if find_spec(package) is None:
        raise PreflightFailed(f"{caller} needs {package}, which is not installed; add it: pip install {package}")


def _expand(name: str, suffix: str, storage: Mapping[str, Any]) -> list[File]:
    if "://" in name and not name.startswith("file://"):
        return _remote(name, suffix, storage)
    path = name.removeprefix("file://")
    with explain_read_errors(name):
        if any(sign in path for sign in "*?["):
            named = glob.glob(path, recursive=True)  # noqa: PTH207 - absolute ones too
            matching = sorted(each for each in named if Path(each).is_file())
            if not matching:
                raise PreflightFailed(f"no data file matches {name}; check the pattern and the volume")
        elif Path(path).is_dir():
            matching = sorted(str(each) for each in Path(path).iterdir() if _is_data(each.name, suffix))
            if not matching:
                raise PreflightFailed(f"the directory {name} has no data file in it (*{suffix}); check its path")
        else:
            matching = [path]
        return [File(each, each, Path(each).stat().st_size) for each in matching]


def _remote(uri: str, suffix: str, storage: Mapping[str, Any]) -> list[File]:
    needs(f"reading {uri}", "fsspec")
    with explain_read_errors(uri):
        system, path = file_system(uri, storage)
        if any(sign in path for sign in "*?["):
            named = system.glob(path, detail=True)
            matching = sorted(each for each, info in named.items() if info["type"] != "directory")
            if not matching:
                raise PreflightFailed(f"no data file matches {uri}; check the pattern and the bucket or directory")
        else:
            info = system.info(path)
            matching = [path]
            if info["type"] == "directory":
                names = sorted(system.ls(path, detail=False))
                matching = [each for each in names if _is_data(each.rsplit("/", 1)[-1], suffix)]
                if not matching:
                    raise PreflightFailed(f"the directory {uri} has no data file in it (*{suffix}); check its path")
        return [File(_name(uri, each), each, int(system.info(each)["size"]), system) for each in matching]


def _name(uri: str, path: str) -> str:
    """Return the URI of a file from the `path` of fsspec. The host of a URI is the NameNode, or else the bucket."""
    parts = urlsplit(uri)
    in_hdfs = parts.scheme in {"hdfs", "webhdfs"}
    return f"{parts.scheme}://{parts.netloc}{path}" if in_hdfs else f"{parts.scheme}://{path.lstrip('/')}"


def _is_data(name: str, suffix: str) -> bool:
    return name.endswith(suffix) and not name.startswith((".", "_"))
