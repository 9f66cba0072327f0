"""Exports a Keras model as a SavedModel, to a path or URI."""

import tempfile
from pathlib import Path
from typing import Protocol

from dtj_trainer.storage.open import open_folder
from dtj_trainer.storage.remote_folder import RemoteFolder

LAST_FILE = "saved_model.pb"
"""The file by which readers recognize a SavedModel; it is written after all others."""


class ExportableModel(Protocol):
    """A Keras model."""

    def export(self, filepath: str, *, verbose: bool) -> object: ...


def export(model: ExportableModel, directory: str) -> None:
    """Write a Keras model as a SavedModel; for a URI it is written on this machine and then uploaded.

    Raises:
        PreflightFailed: the URI is invalid, or its driver is missing.
        PeerLost: the service behind the URI does not answer.
    """
    target = open_folder(directory)
    if not isinstance(target, RemoteFolder):
        model.export(directory.removeprefix("file://"), verbose=False)
        return
    with tempfile.TemporaryDirectory(prefix="dtj-export-") as path:
        model.export(path, verbose=False)
        files = [each for each in Path(path).rglob("*") if each.is_file()]
        for file in sorted(files, key=lambda each: each.name == LAST_FILE):
            target.put(file, file.relative_to(path).as_posix())
