"""What an exception means for the job: its exit class, its exit code, and one line for people.

TensorFlow is not imported here: its errors are recognized by the names of their classes.
"""

import errno
import re
import traceback
from collections.abc import Sequence

from dtj_trainer.contract import ExitStatus
from dtj_trainer.errors import TrainerError

MAX_MESSAGE_CHARACTERS = 600

# What TensorFlow 2.21 says when another process of the cluster is gone, frozen or restarted (measured on loopback,
# in network namespaces and by killing).
_PEER_LOST = re.compile(
    r"connection reset by peer|failed to connect|connection refused|socket closed|broken pipe|errors resolving"
    r"|stopped sending heartbeats|CoordinationService|coordination service|collective ops is aborted"
    r"|different incarnation|cluster check alive failed|collective has timed out|recvmsg:|GOAWAY|keepalive watchdog"
    r"|network is unreachable|no route to host|task .{0,80}(unhealthy|unavailable)|barrier .{0,80}(failed|timed out)",
    re.IGNORECASE,
)
_PORT_TAKEN = re.compile(r"could not start grpc server", re.IGNORECASE)
_DISK_FULL = re.compile(r"no space left on device|disk quota exceeded", re.IGNORECASE)
_OUT_OF_MEMORY = re.compile(r"\boom\b|out of memory|failed to allocate", re.IGNORECASE)
_TOO_LATE = re.compile(r"collective ops must be configured at program startup", re.IGNORECASE)
_OWN_ERROR = re.compile(
    r"^dtj_trainer\.errors\.PreflightFailed: (.+)$", re.MULTILINE
)  # as Python prints it inside a graph
_TENSORFLOW_TRACE = re.compile(
    r"(Detected at node|Graph execution error|Original stack|in user code:|File \"|Traceback |\[\[\{\{node|\^+$"
    r"|defined at )"
)
_ANSI_COLOR = re.compile(r"\x1b\[[0-9;]*m")
_LIBRARIES = ("/client/dtj/", "/dtj_trainer/", "/lib/python", "/site-packages/")  # ours in a checkout, and all others
_KERAS_ARGUMENTS = "\nArguments received by "
_CONNECTION_ERRORS = {"UnavailableError", "AbortedError", "DeadlineExceededError"}


def exit_status_of(exc: BaseException) -> ExitStatus:
    """Return what an exception means for the job. Never raises."""
    for link in _chain(exc):
        known = _known(link)
        if known is not None:
            return known
    return ExitStatus("user-error", 1, _one_line(f"{type(exc).__name__}: {error_text(exc)}{_raised_at(exc)}"))


def _known(exc: BaseException) -> ExitStatus | None:
    if isinstance(exc, TrainerError):
        return ExitStatus(str(exc.exit_class), exc.exit_code, _one_line(exc.message))
    if isinstance(exc, SystemExit):
        return _system_exit(exc)
    if isinstance(exc, KeyboardInterrupt):
        return ExitStatus("killed", 130, "interrupted from the keyboard")
    text = error_text(exc)
    if _is_disk_full(exc, text):
        return ExitStatus("user-error", 1, _one_line(f"the disk is full: {text}; free space or use a larger volume"))
    if isinstance(exc, MemoryError):
        return ExitStatus(
            "out-of-memory", 137, "the process ran out of memory; raise the memory limit or lower the batch"
        )
    return _tensorflow_error(exc, text) if _is_tensorflow(exc) else None


def _tensorflow_error(exc: BaseException, text: str) -> ExitStatus | None:
    kind = type(exc).__name__
    if own := _OWN_ERROR.search(str(exc)):
        return ExitStatus("preflight-failed", 1, _one_line(own[1]))
    if kind == "ResourceExhaustedError" and _OUT_OF_MEMORY.search(text):
        return ExitStatus(
            "out-of-memory", 137, _one_line(f"the device ran out of memory: {text}; lower the batch size")
        )
    if _PORT_TAKEN.search(text):
        return ExitStatus("preflight-failed", 75, "the TensorFlow port of this replica is taken by another process")
    if kind in _CONNECTION_ERRORS or _PEER_LOST.search(text):
        return ExitStatus("peer-lost", 75, _one_line(f"lost a peer: {text}"))
    return None


def _system_exit(exc: SystemExit) -> ExitStatus:
    if exc.code is None or exc.code == 0:
        return ExitStatus("done", 0, "")
    if isinstance(exc.code, int):
        return ExitStatus("user-error", exc.code & 0xFF or 1, f"the program ended by sys.exit({exc.code})")
    return ExitStatus("user-error", 1, _one_line(str(exc.code)))


def error_text(exc: BaseException) -> str:
    """Return the text of an exception without TensorFlow's stacks and Keras' colors and list of arguments."""
    text = _ANSI_COLOR.sub("", str(getattr(exc, "message", None) or exc)).partition(_KERAS_ARGUMENTS)[0]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " ".join(line for line in lines if not _TENSORFLOW_TRACE.match(line))


def is_strategy_too_late(exc: BaseException) -> bool:
    """Return whether TensorFlow refused a strategy because an op had already run."""
    return isinstance(exc, RuntimeError) and bool(_TOO_LATE.search(str(exc)))


def _is_disk_full(exc: BaseException, text: str) -> bool:
    if isinstance(exc, OSError) and exc.errno in {errno.ENOSPC, errno.EDQUOT}:
        return True
    return (_is_tensorflow(exc) or isinstance(exc, OSError)) and bool(_DISK_FULL.search(text))


def _is_tensorflow(exc: BaseException) -> bool:
    return any(kind.__module__.startswith("tensorflow.") for kind in type(exc).__mro__)


def _chain(exc: BaseException) -> list[BaseException]:
    """Return the exception and those that it was explicitly raised from, the nearest first."""
    chain: list[BaseException] = []
    link: BaseException | None = exc
    while link is not None and link not in chain:
        chain.append(link)
        link = link.__cause__
    return chain


def _raised_at(exc: BaseException) -> str:
    """Return file and line of the program that led to the error, leaving out libraries."""
    frame = own_frame(traceback.extract_tb(exc.__traceback__))
    return "" if frame is None else f" ({file_and_line(frame)})"


def own_frame(frames: Sequence[traceback.FrameSummary]) -> traceback.FrameSummary | None:
    """Return the innermost frame of the program, which is none of a library."""
    own = [f for f in frames if not f.filename.startswith("<") and not any(part in f.filename for part in _LIBRARIES)]
    return own[-1] if own else None


def file_and_line(frame: traceback.FrameSummary) -> str:
    """Return file and line, for people."""
    return f"{frame.filename.rsplit('/', 1)[-1]}, line {frame.lineno}"


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MAX_MESSAGE_CHARACTERS else line[: MAX_MESSAGE_CHARACTERS - 1] + "…"
