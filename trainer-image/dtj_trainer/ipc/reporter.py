"""The link between the supervisor and the process that trains.

An AF_UNIX SOCK_SEQPACKET pair, one JSON object a packet. The child finds its end in the file
descriptor named by `DTJ_LINK_FD`; without that variable (a laptop) its end says nothing and
hears nothing, with the same methods.

child -> supervisor    hello, phase, prepared, progress, restored, saving, checkpoint, ready, outcome
supervisor -> child    go, preempt, checkpoint, profile, leave

Standard library only. Sending never raises: a link that broke is silent. Whoever listens ends when the supervisor is
gone.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from dtj_trainer.contract import EXIT_RETRY

LINK_FD: Final = "DTJ_LINK_FD"
PACKET_BYTES: Final = 65536
REPORT_SECONDS: Final = 0.1
"""At most one progress packet in this time, but for the first step of a child."""
ENDING_SAVE_SECONDS: Final = 1.0
"""How long a save that goes on beside the training keeps a child whose cluster is no more: both ends wait so long."""

Message = dict[str, Any]


def pair() -> tuple[socket.socket, socket.socket]:
    """A connected pair: (supervisor's end, child's end)."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def encode(message: Mapping[str, Any]) -> bytes:
    """One packet; numbers that JSON does not know (NaN, infinity) become null."""
    return json.dumps(_finite(message), separators=(",", ":"), default=_number).encode()


def decode(packet: bytes) -> Message:
    """The message of a packet; an empty one if it is no JSON object."""
    try:
        message = json.loads(packet)
    except ValueError:
        return {}
    return message if isinstance(message, dict) else {}


def _finite(value: object) -> object:
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _number(value: Any) -> object:
    """A NumPy or TensorFlow scalar as a Python number."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return str(value)
    return number if math.isfinite(number) else None


class ChildLink:
    """The child's end. All methods may be called from any thread."""

    def __init__(self, sock: socket.socket | None) -> None:
        self._sock = sock
        self._lock = threading.Lock()
        self._reader: threading.Thread | None = None
        self._held: Message | None = None
        self._sent_at = -math.inf
        self.preempted = threading.Event()
        """SIGTERM arrived: save and leave within the grace."""
        self.checkpoint_wanted = threading.Event()
        """Somebody asked for a checkpoint; clear it when it is saved."""
        self.profile_wanted: int | None = None
        """So many steps to profile from the next one on; set to None when taken."""
        self._ended = False
        """The outcome is said."""
        self._leave = threading.Event()
        self._waits: Callable[[], None] | None = None
        self._go: Message | None = None
        self._released = threading.Event()

    def let_go(self) -> None:
        """The program has forked this process: from now on its end says nothing and hears nothing."""
        self._lock = threading.Lock()
        if self._sock is not None:
            self._sock.close()
            self._sock = None

    def begin_as_standby(self, taken_over: Callable[[], None]) -> None:
        """This process prepares itself beside the one that trains; `taken_over` is called when it takes its place."""
        self._waits = taken_over

    @property
    def standby(self) -> bool:
        """Whether this process waits, or will wait, to take over."""
        return self._waits is not None

    def prepared(self) -> float:
        """All that can be done ahead of the first step is done. Returns at once, in a standby when it takes over: the
        seconds it waited.

        A standby that is no longer needed ends here.
        """
        self._send({"type": "prepared"})
        if self._waits is None:
            return 0.0
        began = time.monotonic()
        self._listen()
        self._released.wait()
        if self._go is None:
            os._exit(EXIT_RETRY)
        os.environ.update(self._go.get("environment", {}))
        taken_over, self._waits = self._waits, None
        taken_over()
        return time.monotonic() - began

    @property
    def connected(self) -> bool:
        """Whether a supervisor listens."""
        return self._sock is not None

    def hello(self) -> None:
        """This program reports its steps and reacts to `preempted`: from `dtj.init()`."""
        self._send({"type": "hello", "managed": True})
        self._listen()

    def phase(self, name: str, seconds: float | None = None) -> None:
        """What goes on now: import, cluster, build, first_step (with their seconds),
        train, save, validate, wait, finish (the chief's last writes), done.
        """
        self.flush()
        self._send({"type": "phase", "phase": name, "seconds": seconds})

    def progress(
        self,
        step: int,
        *,
        steps: int,
        seconds: float,
        examples: int = 0,
        data_wait_seconds: float = 0.0,
        total_steps: int | None = None,
        epoch: int | None = None,
        loss: float | None = None,
        learning_rate: float | None = None,
        metrics: Mapping[str, float] | None = None,
    ) -> None:
        """`steps` more steps were made in `seconds`; `step` is the count now.

        About ten packets a second at most; what falls between is summed into the next.
        """
        message: Message = {
            "type": "progress",
            "step": step,
            "totalSteps": total_steps,
            "epoch": epoch,
            "loss": loss,
            "learningRate": learning_rate,
            "metrics": dict(metrics or {}),
            "steps": steps,
            "seconds": seconds,
            "examples": examples,
            "dataWaitSeconds": data_wait_seconds,
        }
        with self._lock:
            if self._held is not None:
                for key in ("steps", "seconds", "examples", "dataWaitSeconds"):
                    message[key] += self._held[key]
            self._held = message
            if time.monotonic() - self._sent_at < REPORT_SECONDS:
                return
        self.flush()

    def flush(self) -> None:
        """Send the steps that are still held back."""
        with self._lock:
            held, self._held = self._held, None
            if held is None:
                return
            if self._transmit(held, patience=0.0):
                self._sent_at = time.monotonic()
            else:
                self._held = held

    def saving(self, step: int) -> None:
        """This process begins to write the checkpoint of `step`; it says so when that is complete."""
        self._send({"type": "saving", "step": step})

    def restored(self, step: int) -> None:
        """The checkpoint of `step` is where this process goes on."""
        self._send({"type": "restored", "step": step})

    def checkpoint(self, step: int, seconds: float) -> None:
        """A checkpoint of `step` is complete; writing it took `seconds`."""
        self._send({"type": "checkpoint", "step": step, "seconds": seconds})

    def ready(self) -> None:
        """A server role serves."""
        self._send({"type": "ready"})

    def outcome(
        self,
        exit_class: str,
        exit_code: int,
        message: str,
        *,
        exception: str = "",
        step: int | None = None,
        checkpoint_step: int | None = None,
        metrics: Mapping[str, float] | None = None,
        printed: bool = False,
        explicit_exit: bool = False,
    ) -> None:
        """How this process ends; call it just before `os._exit(exit_code)`.

        `printed`: the `dtj: …` line of `message` already stands on stderr.
        `explicit_exit`: the program ended itself by sys.exit.
        """
        self._ended = True
        self.flush()
        self._send(
            {
                "type": "outcome",
                "class": str(exit_class),
                "exitCode": exit_code,
                "message": message[:8000],
                "exception": exception,
                "step": step,
                "checkpointStep": checkpoint_step,
                "metrics": dict(metrics) if metrics is not None else None,
                "printed": printed,
                "explicitExit": explicit_exit,
            }
        )

    def wait_go(self) -> Message | None:
        """Park until the supervisor lets the program start; None when there is none any more."""
        while self._sock is not None:
            message = self._receive()
            if message is None:
                return None
            if message.get("type") == "go":
                return message
            self._hear(message)
        return None

    def wait_leave(self, seconds: float) -> None:
        """Wait until the supervisor says that the peers are done too, at most `seconds`."""
        if self._sock is not None:
            self._listen()
            self._leave.wait(seconds)

    def _send(self, message: Message) -> None:
        with self._lock:
            self._transmit(message, patience=1.0)

    def _transmit(self, message: Message, patience: float) -> bool:
        """Send within `patience` seconds; False when the supervisor was too busy."""
        if self._sock is None:
            return True
        packet = encode(message)
        give_up = time.monotonic() + patience
        while True:
            try:
                self._sock.send(packet, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
            except BlockingIOError:
                if time.monotonic() >= give_up:
                    return False
                time.sleep(0.002)
            except OSError:
                return True
            else:
                return True

    def _receive(self) -> Message | None:
        """What the supervisor says next; None when it is gone."""
        assert self._sock is not None
        try:
            packet = self._sock.recv(PACKET_BYTES)
        except ConnectionResetError:  # it went without having heard all
            return None
        return decode(packet) if packet else None

    def _listen(self) -> None:
        with self._lock:
            if self._sock is None or self._reader is not None:
                return
            self._reader = threading.Thread(target=self._read, name="dtj-link", daemon=True)
            self._reader.start()

    def _read(self) -> None:
        """Hear all; a program that nobody supervises any more ends, whatever it does, as it does with its zygote."""
        with contextlib.suppress(OSError):  # the program has closed it
            while (message := self._receive()) is not None:
                self._hear(message)
            if not self._ended:
                os._exit(EXIT_RETRY)
        self._leave.set()
        self._released.set()

    def _hear(self, message: Message) -> None:
        match message.get("type"):
            case "go":
                self._go = message
                self._released.set()
            case "preempt":
                self.preempted.set()
            case "checkpoint":
                self.checkpoint_wanted.set()
            case "profile":
                self.profile_wanted = int(message["steps"])
            case "leave":
                self._leave.set()


_child: ChildLink | None = None


def child() -> ChildLink:
    """The child's end of this process, made once from the environment."""
    global _child  # noqa: PLW0603 - one descriptor, one object
    if _child is None:
        number = os.environ.get(LINK_FD, "")
        _child = ChildLink(socket.socket(fileno=int(number)) if number.isdigit() else None)
        os.register_at_fork(after_in_child=_child.let_go)
    return _child
