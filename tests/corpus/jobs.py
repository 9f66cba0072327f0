"""Runs a program plain in one process, and its other form as a job of `dtj-run` processes on loopback.

All are forks of one process that has imported TensorFlow, as in the trainer's tests.
"""

import hashlib
import json
import os
import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from tests.corpus import comparison
from tests.corpus.catalogue import Program
from tests.corpus.comparison import Deviation, Observed
from tests.corpus.one_line import one_line
from tests.support import pinned_packages
from tests.support.ports import free_ports
from tests.trainer.training.launch import ForkedProgram, fork_server

OBSERVE = Path(__file__).with_name("observe.py")
DTJ_RUN = Path(__file__).parents[1] / "trainer" / "supervisor" / "warm.py"
PLAIN_SECONDS = 180.0
CHECKPOINTS = 8
"""About so many are written by a job that is killed in its middle."""
UNKNOWN_LENGTH = 20
"""The steps that are taken of a training whose length Keras does not tell."""


class PlainFailedError(Exception):
    """The program does not run without dtj: nothing can be compared."""


@dataclass(frozen=True)
class Run:
    """How one job ended. `outcome`: equal, in its band, differs, failed, or hangs; `said`: the last line for people."""

    outcome: str
    seconds: float
    deviation: Deviation | None = None
    said: str = ""

    @property
    def good(self) -> bool:
        return self.outcome in {"equal", "in its band"}


@dataclass(frozen=True)
class Kind:
    """A kind of job: its processes as (role, index), and how many replicas share a batch.

    The first `programs` of the processes run the program; the others serve.
    """

    name: str
    tasks: tuple[tuple[str, int], ...] = (("worker", 0),)
    replicas: int = 1
    programs: int = 1
    strategy: str = "Auto"
    devices: int = 1


def workers(count: int) -> Kind:
    """Return the kind of job with so many workers: OneDevice or MultiWorkerMirrored."""
    return Kind(str(count), tuple(("worker", index) for index in range(count)), replicas=count, programs=count)


STRATEGIES = {
    kind.name: kind
    for kind in (
        Kind("Mirrored", replicas=2, devices=2),
        Kind("CentralStorage", replicas=2, devices=2, strategy="CentralStorage"),
        Kind("ParameterServer", (("chief", 0), ("worker", 0), ("ps", 0)), strategy="ParameterServer"),
    )
}


def plain(program: Program, folder: Path) -> Observed:
    """Return what Keras' own fit trains; kept in `folder` while neither the program nor Keras changes."""
    parts = [program.path.read_bytes(), OBSERVE.read_bytes(), version("keras").encode()]
    kept = folder / f"{program.name}-{hashlib.sha256(b''.join(parts)).hexdigest()[:16]}.npz"
    if not kept.exists():
        work = _emptied(folder / program.name)
        # TF_CONFIG is unset and no strategy is made: Keras trains on one device.
        process = fork_server().spawn(
            OBSERVE,
            [str(program.path), str(kept), *packages(program)],
            {"CUDA_VISIBLE_DEVICES": "-1"},
            directory=work,
            output=work / "log",
        )
        end = time.monotonic() + PLAIN_SECONDS
        while (code := process.poll()) is None and time.monotonic() < end:
            time.sleep(0.05)
        if code != 0:
            process.kill()
            raise PlainFailedError(f"{program.name}: exit code {code}, {last_line(process.said)}")
    return comparison.load(kept)


def run_job(program: Program, wanted: Observed, folder: Path, kind: Kind, *, kill: bool, limit: float) -> Run:
    """Run the program's other form for at most `limit` seconds.

    `kill`: the training process of the last task that runs the program is killed once in the middle.
    """
    began = time.monotonic()
    folder = _emptied(folder)
    code = folder / "program" / program.path.name
    code.parent.mkdir()
    code.write_text(program.own_form.read_text() if program.own_form else one_line(program.path.read_text()))
    middle = Middle.of(wanted)
    processes = _start(program, code, folder, kind, middle.every_steps if kill else None)
    killed, late = False, began + limit
    serving = processes[kind.programs :]
    processes = processes[: kind.programs]
    while any(process.poll() is None for process in processes) and time.monotonic() < late:
        if kill and not killed and middle.reached(folder / "checkpoints"):
            killed = _kill_training_process(processes[-1].pid)
        time.sleep(0.002 if kill and not killed else 0.05)
    hangs = [process for process in processes if process.poll() is None]
    for process in (*hangs, *serving):
        process.kill()
    seconds = time.monotonic() - began
    codes = [process.poll() for process in processes]
    failed = next((process for process in processes if process.poll() not in (0, None)), (hangs or processes)[0])
    said = f"exit codes {codes}: {last_line(failed.said)}"
    results = [folder / f"result-{index}.npz" for index in range(kind.programs)]
    if hangs:
        return Run("hangs", seconds, said=said)
    if any(codes) or not all(result.exists() for result in results):
        return Run("failed", seconds, said=said)
    if kill and not killed:
        return Run("failed", seconds, said="it had ended before it could be killed")
    found = comparison.worst([comparison.deviation(comparison.load(result), wanted) for result in results])
    return Run(judge(program, found, kind.replicas), seconds, found, said=found.described)


def packages(program: Program) -> list[str]:
    """Return the folder of the packages that the environment lacks, for a program that needs them."""
    return [str(pinned_packages.folder("corpus"))] if program.needs else []


def judge(program: Program, found: Deviation, replicas: int) -> str:
    if found.equal:
        return "equal"
    band = program.band_for(replicas)
    return "in its band" if band is not None and found.within(band) else "differs"


@dataclass(frozen=True)
class Middle:
    """The step at which a job is killed: the middle of its middle training."""

    training: int
    step: int

    @classmethod
    def of(cls, wanted: Observed) -> "Middle":
        lengths = [int(value) for key, value in wanted.items() if key.startswith("steps|")]
        training = (len(lengths) + 1) // 2 or 1
        length = lengths[training - 1] if lengths else 0
        return cls(training, max(1, (length or UNKNOWN_LENGTH) // 2))

    @property
    def every_steps(self) -> int:
        return max(1, 2 * self.step // CHECKPOINTS)

    def reached(self, directory: Path) -> bool:
        own = directory if self.training == 1 else directory / "trainings" / str(self.training)
        steps = [int(path.name.split("-")[1].split(".")[0]) for path in own.glob("ckpt-*.index")]
        return max(steps, default=0) >= self.step


def _start(program: Program, code: Path, folder: Path, kind: Kind, every_steps: int | None) -> Sequence[ForkedProgram]:
    ports = free_ports(2 * len(kind.tasks))
    addresses = {task: f"127.0.0.1:{port}" for task, port in zip(kind.tasks, ports, strict=False)}
    http = dict(zip(addresses.values(), ports[len(kind.tasks) :], strict=True))
    checkpoint = {"directory": str(folder / "checkpoints")}
    every = {"everySteps": every_steps, "everySeconds": 0} if every_steps else {}
    started = []
    for number, ((role, index), address) in enumerate(addresses.items()):
        work = folder / ("work" if program.shared else f"work-{number}")
        work.mkdir(exist_ok=True)
        environment = {
            "CUDA_VISIBLE_DEVICES": "-1",
            "DTJ_UID": "uid-1",
            "DTJ_ROLE": role,
            "DTJ_INDEX": str(index),
            "DTJ_STRATEGY": json.dumps({"type": kind.strategy}),
            "DTJ_LOGICAL_DEVICES": str(kind.devices),
            "DTJ_THREADS": "1",
            "DTJ_HEARTBEAT_SECONDS": "30",  # a busy machine is no lost peer
            "DTJ_CHECKPOINT": json.dumps(checkpoint | every),
            "DTJ_TERMINATION_LOG": str(folder / f"termination-{number}"),
            **_cluster(addresses, (role, index), http),
        }
        arguments = [str(code), str(folder / f"result-{number}.npz"), *packages(program)]
        started.append(
            fork_server().spawn(
                DTJ_RUN,
                ["--port", str(http[address]), str(OBSERVE), *arguments],
                environment,
                directory=work,
                output=folder / f"log-{number}",
            )
        )
    return started


def _cluster(addresses: Mapping[tuple[str, int], str], own: tuple[str, int], http: Mapping[str, int]) -> dict[str, str]:
    if len(addresses) == 1:
        return {}
    cluster: dict[str, list[str]] = {}
    for (role, _), address in addresses.items():
        cluster.setdefault(role, []).append(address)
    task = {"cluster": cluster, "task": {"type": own[0], "index": own[1]}}
    return {"TF_CONFIG": json.dumps(task), "DTJ_PEER_PORTS": json.dumps(dict(http))}


def _kill_training_process(supervisor: int) -> bool:
    """Kill the oldest process of the zygote, which trains; the other is a standby."""
    with suppress(OSError, IndexError):
        zygote = _children(supervisor)[0]
        os.kill(_children(zygote)[0], signal.SIGKILL)
        return True
    return False


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def last_line(output: str) -> str:
    """Return the last line for people, or the last one at all."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return next((line for line in reversed(lines) if line.startswith("dtj: ")), lines[-1] if lines else "no output")


def _emptied(folder: Path) -> Path:
    """Return an empty folder of this name; an older one of it is removed."""
    if folder.exists():
        for path in sorted(folder.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    folder.mkdir(parents=True, exist_ok=True)
    return folder
