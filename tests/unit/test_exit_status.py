"""What an exception means for the job: exit class, exit code, and one line."""

import errno

import pytest

from dtj_trainer.errors import PeerLost, PreflightFailed
from dtj_trainer.exit_status import exit_status_of


class UnavailableError(Exception):
    __module__ = "tensorflow.python.framework.errors_impl"


class ResourceExhaustedError(Exception):
    __module__ = "tensorflow.python.framework.errors_impl"


@pytest.mark.parametrize(
    ("error", "cls", "code"),
    [
        (UnavailableError("recvmsg:Connection reset by peer"), "peer-lost", 75),
        (PeerLost("gone"), "peer-lost", 75),
        (PreflightFailed("no"), "preflight-failed", 1),
        (ResourceExhaustedError("OOM when allocating tensor"), "out-of-memory", 137),
        (ResourceExhaustedError("a.data; No space left on device"), "user-error", 1),
        (OSError(errno.ENOSPC, "No space left on device"), "user-error", 1),
        (MemoryError(), "out-of-memory", 137),
        (SystemExit(3), "user-error", 3),
        (SystemExit(0), "done", 0),
        (SystemExit("because"), "user-error", 1),
        (KeyboardInterrupt(), "killed", 130),
        (ValueError("connection refused"), "user-error", 1),
    ],
)
def test_an_exception_has_a_class_a_code_and_one_line(error, cls, code):
    status = exit_status_of(error)
    assert (status.exit_class, status.exit_code) == (cls, code)
    assert "\n" not in status.message


def test_what_an_error_was_raised_from_counts():
    wrapped = ValueError("wrapped")
    wrapped.__cause__ = UnavailableError("Socket closed")
    assert exit_status_of(wrapped).exit_class == "peer-lost"
