"""Where the state of a job lives: a directory that every pod sees, or a place behind a URI (gs://, s3://, hdfs://).

Whatever appears in a folder appears whole: it is made aside and then moved. A new owner clears away what lies aside;
so a writer that slept between its last look at owner.json and its next move has nothing left to move.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

ASIDE = ".writing-"


class Aside(Protocol):
    """A place beside a folder, gone at the end of its context."""

    @property
    def path(self) -> Path:
        """A directory of this machine to write files into."""

    def ready(self, names: Sequence[str]) -> None:
        """Bring files of `path` so far that only moves are left."""

    def move(self, names: Sequence[str]) -> None:
        """Put ready files into the folder, one after the other, each at once.

        Raises:
            OSError: somebody has cleared this place away, or the folder cannot be written.
        """

    def drop(self, names: Sequence[str]) -> None:
        """Take files out of the folder, for good; nothing is taken once this place is cleared away."""


class Folder(Protocol):
    """Flat: names have no slash in them."""

    name: str
    """As people wrote it."""

    shared: bool
    """Whether other processes of the job reach files aside by the same path."""

    def make(self) -> None: ...

    def names(self) -> list[str]:
        """What is in it now, as the server tells it; nothing where there is no such folder."""

    def read(self, name: str) -> str | None:
        """The text of a file; None where there is none.

        Raises:
            PeerLost: nobody can tell; the volume or the service fails.
        """

    def aside(self, label: str) -> AbstractContextManager[Aside]: ...

    def clear(self) -> None:
        """Remove what writers have left aside."""

    def fetched(self, stem: str) -> AbstractContextManager[str]:
        """A path on this machine that the files `<stem>.*` begin with."""


def folder(directory: str) -> Folder:
    """The folder meant by a path or URI."""
    if "://" in directory and not directory.startswith("file://"):
        from dtj_trainer.storage.remote_folder import RemoteFolder

        return RemoteFolder(directory)
    from dtj_trainer.storage.local_folder import LocalFolder

    return LocalFolder(directory.removeprefix("file://"))


def json_text(value: Mapping[str, Any]) -> str:
    return json.dumps(value, indent=1, sort_keys=True) + "\n"


def write_json(place: Folder, name: str, value: Mapping[str, Any]) -> None:
    """Replace a file by a JSON object."""
    with place.aside(name) as aside:
        (aside.path / name).write_text(json_text(value), encoding="utf-8")
        aside.ready([name])
        aside.move([name])


def read_json(place: Folder, name: str) -> dict[str, Any] | None:
    """The object in a file; None where there is no file, or no object in it."""
    try:
        value = json.loads(place.read(name) or "")
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
