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
    """This program reports its steps and obeys commands: sent by `dtj.init()`."""


@dataclass(frozen=True, slots=True)
class PhaseChanged:
    """What goes on now.

    These come with the seconds that they took: import, cluster, build, first_step. The others: train, save, validate,
    wait, finish (the chief's last writes), done.
    """

    phase: str
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class StepsDone:
    """`steps` more steps were made in `seconds`; `step` is the count now."""

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
class Serving:
    """The TensorFlow server of this process serves."""


@dataclass(frozen=True, slots=True)
class ReadyForTakeover:
    """All that can be done ahead of the first step is done."""


@dataclass(frozen=True, slots=True)
class ProcessExit:
    """How the process ends; the last thing it says."""

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


# --- supervisor to training process


@dataclass(frozen=True, slots=True)
class StartOrder:
    """What a new process is to do."""

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
    """All peers are ready: run the program, or as a standby take over, with these variables."""

    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Preempt:
    """SIGTERM arrived: save and leave within the grace period."""


@dataclass(frozen=True, slots=True)
class SaveNow:
    """Somebody asked for a checkpoint."""


@dataclass(frozen=True, slots=True)
class Profile:
    """Profile so many steps from the next one on."""

    steps: int


@dataclass(frozen=True, slots=True)
class Leave:
    """The peers have ended their programs too."""


# --- supervisor and zygote


@dataclass(frozen=True, slots=True)
class Fork:
    """Fork a process; its end of a connection to the supervisor comes as a descriptor beside this."""

    number: int
    order: StartOrder


@dataclass(frozen=True, slots=True)
class Retire:
    """No more processes will be asked for."""


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
    | StepsDone
    | CheckpointStarted
    | CheckpointSaved
    | CheckpointRestored
    | Serving
    | ReadyForTakeover
    | ProcessExit
)
"""What a training process says."""
Command = Start | Preempt | SaveNow | Profile | Leave
"""What a training process is told."""
Message = Report | Command | Fork | Retire | ZygoteReady | Started | Exited

_CLASSES: Final[Mapping[str, type[Message]]] = {kind.__name__: kind for kind in get_args(Message)}


def encode(message: Message) -> bytes:
    """Return the packet of a message; numbers that JSON does not know (NaN, infinity) become null."""
    return json.dumps({NAME: type(message).__name__, **_fields(message)}, separators=(",", ":")).encode()


def decode(packet: bytes) -> Message | None:
    """Return the message of a packet; None if it holds none that is known here."""
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
    """Return what JSON knows; a NumPy or TensorFlow scalar becomes a Python number."""
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
