"""The log directory: event files and profiles, on this machine or uploaded to a URI."""

import contextlib
import tempfile
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from dtj_trainer.storage.open import open_folder
from dtj_trainer.storage.remote_folder import RemoteFolder

UPLOAD_SECONDS = 30.0
"""Between the beginnings of two uploads."""


class LogDirectory:
    """A directory for logs. For a URI it is a temporary one, whose files are uploaded from time to time.

    A failed upload does not stop the training.
    """

    def __init__(self, directory: str) -> None:
        target = open_folder(directory)
        self._target = target if isinstance(target, RemoteFolder) else None
        self.path = Path(directory.removeprefix("file://"))
        if self._target is not None:
            self._local = tempfile.TemporaryDirectory(prefix="dtj-logs-")
            self.path = Path(self._local.name)
        self._uploader = ThreadPoolExecutor(1, thread_name_prefix="dtj-logs")
        self._upload: Future[None] | None = None
        self._uploaded_at = time.monotonic()
        self._uploaded_sizes: dict[Path, int] = {}

    def upload_if_due(self) -> None:
        """Start to upload new files in the background, if the last upload is old enough and complete."""
        due = time.monotonic() - self._uploaded_at >= UPLOAD_SECONDS
        if self._target is not None and due and (self._upload is None or self._upload.done()):
            self._uploaded_at = time.monotonic()
            self._upload = self._uploader.submit(self._upload_new_files, self._target)

    def close(self) -> None:
        """Upload the remaining files."""
        if self._target is not None:
            self._uploader.submit(self._upload_new_files, self._target).result()

    def _upload_new_files(self, target: RemoteFolder) -> None:
        for path in (path for path in self.path.rglob("*") if path.is_file()):
            size = path.stat().st_size
            if self._uploaded_sizes.get(path) != size:
                with contextlib.suppress(Exception):
                    target.put(path, path.relative_to(self.path).as_posix())
                    self._uploaded_sizes[path] = size
