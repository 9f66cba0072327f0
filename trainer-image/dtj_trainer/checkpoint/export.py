"""A SavedModel at a path or behind a URI."""

import tempfile
from pathlib import Path
from typing import Any

from dtj_trainer.storage.open import open_folder
from dtj_trainer.storage.remote_folder import RemoteFolder

LAST = "saved_model.pb"
"""The file by which readers know a SavedModel; it comes when all others are there."""


def export(model: Any, directory: str) -> None:
    """Write a Keras model as a SavedModel; what goes behind a URI is written here first.

    Raises:
        PreflightFailed: the URI is none, or its driver is missing.
        PeerLost: the service behind the URI does not answer.
    """
    place = open_folder(directory)
    if not isinstance(place, RemoteFolder):
        model.export(directory.removeprefix("file://"), verbose=False)
        return
    with tempfile.TemporaryDirectory(prefix="dtj-export-") as path:
        model.export(path, verbose=False)
        files = [each for each in Path(path).rglob("*") if each.is_file()]
        for file in sorted(files, key=lambda each: each.name == LAST):
            place.put(file, file.relative_to(path).as_posix())
