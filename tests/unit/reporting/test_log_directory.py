"""A log that cannot be carried is no reason to stop a training."""

import threading
from pathlib import Path

import pytest

from dtj_trainer.reporting import log_directory
from dtj_trainer.storage.remote_folder import RemoteFolder


def test_a_store_that_is_silent_delays_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    answers = threading.Event()
    asked = []

    def put(*_: object) -> None:
        asked.append(answers.wait(30))

    monkeypatch.setattr(RemoteFolder, "put", put)
    monkeypatch.setattr(log_directory, "UPLOAD_SECONDS", 0.0)
    written = log_directory.LogDirectory(f"local://{tmp_path}/logs")
    (written.path / "events").write_text("some")
    for _ in range(3):
        written.upload_if_due()
    assert asked == []
    answers.set()
    written.close()
    written._local.cleanup()
    assert asked == [True]
