"""The folder with the state of a job: a directory that every pod mounts, or a URI (gs://, s3://, hdfs://).

Files appear in a folder complete: they are written to a temporary folder and then committed. A new owner deletes all
temporary folders, so a writer that was suspended between its last check of owner.json and its commit commits nothing.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

TEMPORARY_PREFIX = ".writing-"


class TemporaryFolder(Protocol):
    """A directory beside the folder, for files that are being written; deleted at the end of its context."""

    @property
    def path(self) -> Path:
        """A local directory to write files into."""

    def upload(self, names: Sequence[str]) -> None:
        """Upload files of `path`, so that the commit is only a rename, or a copy within the store."""

    def commit(self, names: Sequence[str]) -> None:
        """Move uploaded files into the folder, one after the other, each atomically.

        Raises:
            OSError: a new owner has deleted the temporary folder, or the folder cannot be written.
        """

    def delete(self, names: Sequence[str]) -> None:
        """Delete files of the folder; nothing is deleted once the temporary folder is."""

    def delete_others(self) -> None:
        """Delete the temporary folders of all other writers."""


class Folder(Protocol):
    """A folder without subfolders: names contain no slash."""

    name: str
    """As people wrote it."""

    shared: bool
    """Whether other processes of the job reach temporary files by the same path."""

    def make(self) -> None: ...

    def names(self) -> list[str]:
        """Return the names of its files now, without any cache; none if there is no such folder."""

    def read(self, name: str) -> str | None:
        """Return the text of a file; None if there is none.

        Raises:
            PeerLost: the volume or the service fails.
        """

    def rename(self, old: str, new: str) -> None:
        """Rename a file, which may be gone, to a name that may exist. One that the store cannot move is deleted."""

    def temporary(self, label: str) -> AbstractContextManager[TemporaryFolder]: ...

    def delete_temporary(self) -> None:
        """Delete all temporary folders of earlier writers."""

    def download(self, stem: str) -> AbstractContextManager[str]:
        """Download the files `<stem>.*`; yields the local path of the stem."""


def json_text(value: Mapping[str, Any]) -> str:
    return json.dumps(value, indent=1, sort_keys=True) + "\n"


def write_text(place: Folder, name: str, text: str) -> None:
    """Replace a file by a text."""
    with place.temporary(name) as temporary:
        (temporary.path / name).write_text(text, encoding="utf-8")
        temporary.upload([name])
        temporary.commit([name])


def write_json(place: Folder, name: str, value: Mapping[str, Any]) -> None:
    """Replace a file by a JSON object."""
    write_text(place, name, json_text(value))


def read_json(place: Folder, name: str) -> dict[str, Any] | None:
    """Return the JSON object of a file; None if there is no file, or no object in it."""
    try:
        value = json.loads(place.read(name) or "")
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
