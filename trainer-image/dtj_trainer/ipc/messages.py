"""The messages between supervisor, zygote and training process, and their JSON.

A packet is one JSON object: the name of the message's class and its fields. Both ends are of the same version: they
live in one container.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Final, get_args

NAME: Final = "type"
"""The key that holds the name of a message's class."""


# --- training process to supervisor


@dataclass(frozen=True, slots=True)
class Hello:
    """The message of `dtj.init()`: this program reports its steps and handles commands."""


@dataclass(frozen=True, slots=True)
class PhaseChanged:
    """The current phase of the process.

    These come with the seconds that they took: import, cluster, build, first_step. The others: train, save, validate,
    wait, skip (reads past batches that are trained already), finish (the chief's last writes), done.
    """

    phase: str
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class TrainingStarted:
    """A training of the program begins: its number, from 1, and its name."""

    number: int
    name: str | None


@dataclass(frozen=True, slots=True)
class TrainingFinished:
    """A training of the program has finished; between it and the next one, or the program's end, nothing is a stall."""

    saved_step: int | None
    """The step of its last checkpoint; None without a checkpoint directory."""


@dataclass(frozen=True, slots=True)
class StepsDone:
    """A report of `steps` more steps in `seconds`; `step` is the count now."""

    step: int
    steps: int
    seconds: float
    examples: int = 0
    data_wait_seconds: float = 0.0
    total_steps: int | None = None
    epoch: int | None = None
    loss: float | None = None
    learning_rate: float | None = None
    metrics: Mapping[str, float | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CheckpointStarted:
    """The process begins to write the checkpoint of this step."""

    step: int


@dataclass(frozen=True, slots=True)
class CheckpointSaved:
    """The checkpoint of this step is complete; writing it took `seconds`."""

    step: int
    seconds: float


@dataclass(frozen=True, slots=True)
class CheckpointRestored:
    """The process continues from the checkpoint of this step."""

    step: int


@dataclass(frozen=True, slots=True)
class BatchesValidated:
    """More batches of the validation data have been evaluated."""


@dataclass(frozen=True, slots=True)
class CallbackStarted:
    """A call of callbacks goes on, of the method of this name."""

    method: str


@dataclass(frozen=True, slots=True)
class CallbackEnded:
    """The call that was reported has returned."""


@dataclass(frozen=True, slots=True)
class Serving:
    """The TensorFlow server of this process serves."""


@dataclass(frozen=True, slots=True)
class ReadyForTakeover:
    """The message of a standby that is prepared up to its first step."""


@dataclass(frozen=True, slots=True)
class ProcessExit:
    """The exit of the process; its last message."""

    exit_class: str
    exit_code: int
    message: str = ""
    exception: str = ""
    step: int | None = None
    checkpoint_step: int | None = None
    metrics: Mapping[str, float | None] | None = None
    printed: bool = False
    """The `dtj: …` line of `message` already stands on stderr."""
    explicit: bool = False
    """The program ended itself by sys.exit."""
    job_done: bool = False
    """done.json says that the program of the chief has ended with 0."""


# --- supervisor to training process


@dataclass(frozen=True, slots=True)
class StartOrder:
    """The order for a new process."""

    serves: bool
    """It serves as a TensorFlow server, and runs no program."""
    in_cluster: bool
    """It trains with its peers: they start, and end, together."""
    has_peers: bool
    """It is started once other tasks are there."""
    uses_dtj: bool
    """The program imports dtj, and so waits for its leader by itself."""
    program: str = ""
    arguments: Sequence[str] = ()
    is_module: bool = False
    standby: bool = False
    """It prepares itself beside the process that trains, and waits to take over."""
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Start:
    """The command to run the program, or take over as a standby, with these variables: all peers are ready."""

    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Preempt:
    """The command to save and exit within the grace period, after SIGTERM."""


@dataclass(frozen=True, slots=True)
class SaveNow:
    """The command to save a checkpoint."""


@dataclass(frozen=True, slots=True)
class Profile:
    """The command to profile `steps` steps from the next one on."""

    steps: int


@dataclass(frozen=True, slots=True)
class Leave:
    """The peers have ended their programs too."""


# --- supervisor and zygote


@dataclass(frozen=True, slots=True)
class Fork:
    """The command to fork a process; its end of the connection is passed as a descriptor."""

    number: int
    order: StartOrder


@dataclass(frozen=True, slots=True)
class Retire:
    """The message that no more forks are needed."""


@dataclass(frozen=True, slots=True)
class ZygoteReady:
    """The zygote has imported TensorFlow."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Started:
    """The process that was asked for exists."""

    number: int
    pid: int


@dataclass(frozen=True, slots=True)
class Exited:
    """A process is gone and reaped."""

    pid: int
    status: int
    """As of waitpid."""


Report = (
    Hello
    | PhaseChanged
    | TrainingStarted
    | TrainingFinished
    | StepsDone
    | CheckpointStarted
    | CheckpointSaved
    | CheckpointRestored
    | BatchesValidated
    | CallbackStarted
    | CallbackEnded
    | Serving
    | ReadyForTakeover
    | ProcessExit
)
"""What a training process says."""
Command = Start | Preempt | SaveNow | Profile | Leave
"""The commands to a training process."""
Message = Report | Command | Fork | Retire | ZygoteReady | Started | Exited

_CLASSES: Final[Mapping[str, type[Message]]] = {kind.__name__: kind for kind in get_args(Message)}


def encode(message: Message) -> bytes:
    """Return the packet of a message; NaN and infinity become null."""
    return json.dumps({NAME: type(message).__name__, **_fields(message)}, separators=(",", ":")).encode()


def decode(packet: bytes) -> Message | None:
    """Return the message of a packet; None if it is unknown."""
    try:
        body = json.loads(packet)
        kind = _CLASSES[body.pop(NAME)]
        if kind is Fork:
            order = body["order"]
            body["order"] = StartOrder(**{**order, "arguments": tuple(order["arguments"])})
        return kind(**body)
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def _fields(message: Message | StartOrder) -> dict[str, object]:
    return {one.name: _plain(getattr(message, one.name)) for one in fields(message)}


def _plain(value: object) -> object:
    """Return a JSON value; a NumPy or TensorFlow scalar becomes a Python number."""
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, StartOrder):
        return _fields(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    try:
        number = float(value)  # type: ignore[arg-type]  # that is what is tried
    except (TypeError, ValueError):
        return str(value)
    return number if math.isfinite(number) else None
