"""The log directory: event files and profiles, on this machine or behind a URI."""

import contextlib
import tempfile
import time
from pathlib import Path

from dtj_trainer.checkpoint.background import Background
from dtj_trainer.storage.open import open_folder
from dtj_trainer.storage.remote_folder import RemoteFolder

CARRY_SECONDS = 30.0


class Logs:
    """A directory to write into. What belongs behind a URI is written here first and carried over from time to time:
    a log that cannot be carried is no reason to stop a training.
    """

    def __init__(self, directory: str) -> None:
        place = open_folder(directory)
        self._place = place if isinstance(place, RemoteFolder) else None
        self.path = Path(directory.removeprefix("file://"))
        if self._place is not None:
            self._local = tempfile.TemporaryDirectory(prefix="dtj-logs-")
            self.path = Path(self._local.name)
        self._background = Background()
        self._carried_at = time.monotonic()
        self._carried: dict[Path, int] = {}

    def look(self) -> None:
        """Carry over what is new, if the last time was long ago and is over: a store that is silent delays no step."""
        due = time.monotonic() - self._carried_at >= CARRY_SECONDS
        if self._place is not None and due and not self._background.busy:
            self._carried_at = time.monotonic()
            self._background.start(self._carry)

    def close(self) -> None:
        """Carry over what is left."""
        if self._place is not None:
            self._background.start(self._carry)
            self._background.wait()

    def _carry(self) -> None:
        assert self._place is not None
        for path in (path for path in self.path.rglob("*") if path.is_file()):
            size = path.stat().st_size
            if self._carried.get(path) != size:
                with contextlib.suppress(Exception):
                    self._place.put(path, path.relative_to(self.path).as_posix())
                    self._carried[path] = size
