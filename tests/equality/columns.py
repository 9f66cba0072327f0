"""The ways to divide a batch, and the program's weights in each."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from tests.support.ports import free_ports
from tests.trainer.training import launch

FOLDER: Final = Path(__file__).parent
PROGRAM: Final = "program.py"
BATCH: Final = 32
Weights = Sequence[float]
Trained = dict[str, Weights]


@dataclass(frozen=True, slots=True)
class Column:
    """One way to divide a batch."""

    name: str
    run: Callable[..., launch.Ended]
    """Of the arguments of the program but the first."""
    batches: int = 1
    """Batches of an update."""


def train(column: Column, *kinds: str) -> tuple[Trained, Trained | str]:
    """Return the weights of Keras' own fit and of this way, by kind; or the last line of a program that failed.

    Without `kinds` all are trained.
    """
    examples = BATCH * column.batches
    ended = column.run(str(examples), str(column.batches), *kinds)
    return plain(examples, *kinds), ended.said if ended.code == 0 else ended.output.strip().splitlines()[-1]


@cache
def plain(examples: int, *kinds: str) -> Trained:
    """Return the weights of Keras' own fit in one process."""
    ended = launch.run(PROGRAM, "keras", str(examples), "1", *kinds, folder=FOLDER)
    assert ended.code == 0, ended.output
    return ended.said


def one_process(devices: int = 1) -> Callable[..., launch.Ended]:
    """One process of so many devices."""
    environment = {"DTJ_LOGICAL_DEVICES": str(devices)} if devices > 1 else {}
    return lambda *arguments: launch.run(PROGRAM, "dtj", *arguments, environment=environment, folder=FOLDER)


def workers(count: int, devices: int = 1) -> Callable[..., launch.Ended]:
    """So many workers of so many devices."""
    environment = {"DTJ_LOGICAL_DEVICES": str(devices)} if devices > 1 else {}

    def run(*arguments: str) -> launch.Ended:
        return launch.run_workers(count, PROGRAM, "dtj", *arguments, environment=environment, folder=FOLDER)[0]

    return run


def parameter_server(*arguments: str) -> launch.Ended:
    """A chief, one worker and one ps."""
    roles = ("chief", "worker", "ps")
    cluster = {role: [f"127.0.0.1:{port}"] for role, port in zip(roles, free_ports(len(roles)), strict=True)}
    strategy = {"DTJ_STRATEGY": json.dumps({"type": "ParameterServer"})}
    tasks = {
        role: {"TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": role, "index": 0}})} for role in roles
    }
    chief, *others = (
        launch.start(
            PROGRAM, "dtj", *arguments, environment={**strategy, **tasks[role], "DTJ_ROLE": role}, folder=FOLDER
        )
        for role in roles
    )
    ended = launch.finish(chief)
    for each in others:
        each.kill()
        launch.finish(each)
    return ended


COLUMNS: Final = (
    Column("one process", one_process()),
    Column("2 devices", one_process(2)),
    Column("2 workers", workers(2)),
    Column("3 workers", workers(3)),
    Column("2 x 2", workers(2, 2)),
    Column("accumulate 3", one_process(), batches=3),
    Column("accumulate 3, 2 devices", one_process(2), batches=3),
    Column("ParameterServer", parameter_server),
)
