"""The message that the kubelet passes on: what the operator reads when the container has ended."""

from __future__ import annotations

import fcntl
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from dtj_trainer.contract import TERMINATION_BYTES

DEFAULT_PATH: Final = Path("/dev/termination-log")
PROGRESS: Final = ("totalSteps", "epoch", "stepsPerSecond", "examplesPerSecond", "loss")
"""Keys of /status that are in the message under the same names."""
NO_RECOVERIES: Final[Mapping[str, object]] = {"count": 0, "last": None}


@dataclass(frozen=True, slots=True)
class TerminationMessage:
    """The exit of the container, and the progress of the training."""

    exit_class: str
    exit_code: int
    message: str = ""
    """One sentence, without `dtj: `; empty when all went well."""
    exception: str = ""
    step: int | None = None
    checkpoint_step: int | None = None
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    progress: Mapping[str, object] = field(default_factory=dict)
    """What else /status says of the training, by its keys."""
    restarts: int = 0
    recoveries: Mapping[str, object] = field(default_factory=lambda: NO_RECOVERIES)

    def to_json(self) -> bytes:
        """Return at most 4000 bytes; the message is cut first, then the metrics."""
        body = {
            "class": self.exit_class,
            "exitCode": self.exit_code,
            "step": self.step,
            "checkpointStep": self.checkpoint_step,
            **{name: self.progress.get(name) for name in PROGRESS},
            "metrics": dict(self.metrics),
            "restarts": self.restarts,
            "recoveries": dict(self.recoveries),
            "exception": self.exception[:200],
            "message": self.message,
        }
        message = self.message
        while len(text := _encode(body)) > TERMINATION_BYTES and message:
            excess = len(text) - TERMINATION_BYTES
            message = message[: max(0, len(message) - max(excess // 6, 1) - 1)]
            body["message"] = f"{message}…" if message else ""
        if len(text) > TERMINATION_BYTES:
            body["metrics"] = {}
            text = _encode(body)
        return text


def _encode(body: Mapping[str, object]) -> bytes:
    return json.dumps(body, separators=(",", ":"), allow_nan=False, default=str).encode()


def print_line(text: str) -> None:
    """Print a line for people, as the termination message is one."""
    sys.stderr.write(f"dtj: {text}\n")
    sys.stderr.flush()


def claim(path: Path | None) -> bool:
    """Lock the message's file for the life of this process; False where another `dtj-run` has it.

    A `dtj-run` that somebody starts beside the one of the container, by `kubectl exec`, must not write there.
    """
    path = path or DEFAULT_PATH
    if path == DEFAULT_PATH and not path.exists():
        return True
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # it cannot be written, or locked
        return True
    return True


def write(message: TerminationMessage, path: Path | None) -> None:
    """Write the message; without a path only where Kubernetes has put the file."""
    if path is None:
        if not DEFAULT_PATH.exists():
            return
        path = DEFAULT_PATH
    try:
        path.write_bytes(message.to_json())
    except OSError:
        return
