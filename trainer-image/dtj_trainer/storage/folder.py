"""Where the state of a job lives: a directory that every pod sees, or a place behind a URI (gs://, s3://, hdfs://).

Whatever appears in a folder appears whole: it is written to a temporary folder and then committed. A new owner deletes
all temporary folders, so a writer that slept between its last look at owner.json and its commit has nothing to commit.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

TEMPORARY_PREFIX = ".writing-"


class TemporaryFolder(Protocol):
    """Files that are being written, in a directory of their own beside the folder; gone at the end of its context."""

    @property
    def path(self) -> Path:
        """A directory of this machine to write files into."""

    def upload(self, names: Sequence[str]) -> None:
        """Bring files of `path` so far that only a rename, or a copy within the store, is left."""

    def commit(self, names: Sequence[str]) -> None:
        """Put uploaded files into the folder, one after the other, each whole at once.

        Raises:
            OSError: somebody has deleted the temporary folder, or the folder cannot be written.
        """

    def delete(self, names: Sequence[str]) -> None:
        """Delete files of the folder; nothing is deleted once the temporary folder is."""


class Folder(Protocol):
    """A flat folder: names have no slash in them."""

    name: str
    """As people wrote it."""

    shared: bool
    """Whether other processes of the job reach temporary files by the same path."""

    def make(self) -> None: ...

    def names(self) -> list[str]:
        """What is in it now, as the server tells it; nothing where there is no such folder."""

    def read(self, name: str) -> str | None:
        """The text of a file; None where there is none.

        Raises:
            PeerLost: nobody can tell; the volume or the service fails.
        """

    def temporary(self, label: str) -> AbstractContextManager[TemporaryFolder]: ...

    def delete_temporary(self) -> None:
        """Delete what writers have left in temporary folders."""

    def download(self, stem: str) -> AbstractContextManager[str]:
        """A path on this machine that the files `<stem>.*` begin with."""


def json_text(value: Mapping[str, Any]) -> str:
    return json.dumps(value, indent=1, sort_keys=True) + "\n"


def write_json(place: Folder, name: str, value: Mapping[str, Any]) -> None:
    """Replace a file by a JSON object."""
    with place.temporary(name) as temporary:
        (temporary.path / name).write_text(json_text(value), encoding="utf-8")
        temporary.upload([name])
        temporary.commit([name])


def read_json(place: Folder, name: str) -> dict[str, Any] | None:
    """The object in a file; None where there is no file, or no object in it."""
    try:
        value = json.loads(place.read(name) or "")
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
