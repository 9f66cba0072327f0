"""The trainings of one program: their numbers, names and directories, and trainings.json, which records them.

The first unnamed training has its checkpoints in the checkpoint directory itself, each other one in a directory of its
own below `trainings/`.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dtj_trainer.checkpoint.owner_file import OwnerFile
from dtj_trainer.context import TrainContext
from dtj_trainer.errors import UserError
from dtj_trainer.storage.folder import Folder, json_text, read_json

NAME = "trainings.json"
FOLDER = "trainings"
_ALLOWED = re.compile(r"(?!\d+$)[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True, slots=True)
class TrainingId:
    """The number of a training among all calls of `fit` and `train`, from 1, its name, and where its files are."""

    number: int
    name: str | None
    subdirectory: str
    """Below the checkpoint directory and the log directory; empty for the first unnamed training."""

    def below(self, directory: str) -> str:
        """Return the directory of this training below that of the job; empty where that is."""
        if not directory or not self.subdirectory:
            return directory
        return f"{directory.rstrip('/')}/{self.subdirectory}"

    def __str__(self) -> str:
        return f"training {self.number} ({_quoted(self.name)})"


@dataclass(frozen=True, slots=True)
class TrainingRecord:
    """An entry of trainings.json."""

    number: int
    name: str | None
    final_step: int | None = None
    """Its last step, once it has finished."""
    metrics: Mapping[str, float] = field(default_factory=dict)


def next_training(context: TrainContext, name: str | None) -> TrainingId:
    """Count the next training of this program.

    Raises:
        UserError: see `upcoming_training`.
    """
    found = upcoming_training(context, name)
    context.training_names.append(name)
    return found


def upcoming_training(context: TrainContext, name: str | None) -> TrainingId:
    """Return what the next training of this program will be if it gets this name.

    Raises:
        UserError: the name was given before, or cannot be that of a directory.
    """
    names = context.training_names
    if name is not None and name in names:
        raise UserError(
            f"two trainings of this program have the name {name!r}, numbers {names.index(name) + 1} and "
            f"{len(names) + 1}; give each its own"
        )
    if name is not None and not _ALLOWED.fullmatch(name):
        raise UserError(
            f"{name!r} cannot be the name of a training; use letters, digits, '.', '_' and '-', and more than a number"
        )
    number = len(names) + 1
    first_unnamed = name is None and None not in names
    return TrainingId(number, name, "" if first_unnamed else f"{FOLDER}/{name or number}")


def read(folder: Folder, job: str) -> list[TrainingRecord]:
    """Return the records of the job with this hash in the checkpoint directory, in the order of their numbers."""
    found = read_json(folder, NAME) or {}
    if found.get("job") != job:
        return []
    return [_from_json(each) for each in found.get("trainings") or []]


def write(owner: OwnerFile, record: TrainingRecord) -> None:
    """Put a record into trainings.json, in place of an older one of its number.

    Raises:
        Fenced: a newer attempt, or another job, has claimed the directory.
    """
    records = {each.number: each for each in read(owner.folder, owner.job)} | {record.number: record}
    text = json_text({"job": owner.job, "trainings": [_to_json(records[number]) for number in sorted(records)]})
    with owner.folder.temporary(NAME) as temporary:
        (temporary.path / NAME).write_text(text, encoding="utf-8")
        temporary.upload([NAME])
        owner.confirm(temporary)
        temporary.commit([NAME])


def refusal(records: Sequence[TrainingRecord], training: TrainingId, directory: str) -> str:
    """Return why this training does not fit what an earlier start of the job has recorded; empty if it does."""
    was = {record.number: record.name for record in records}
    numbers = {record.name: record.number for record in records if record.name is not None}
    number, name = training.number, training.name
    if number in was and was[number] != name:
        change = f"training {number} was {_quoted(was[number])} in {directory} and is {_quoted(name)} now"
    elif name is not None and numbers.get(name, number) != number:
        change = f"training {name!r} was number {numbers[name]} in {directory} and is number {number} now"
    else:
        return ""
    return f"{change}; make the same calls in the same order at every start, or use another checkpoint directory"


def _quoted(name: str | None) -> str:
    return "unnamed" if name is None else f"named {name!r}"


def _to_json(record: TrainingRecord) -> dict[str, Any]:
    return {
        "number": record.number,
        "name": record.name,
        "final_step": record.final_step,
        "metrics": dict(record.metrics),
    }


def _from_json(found: Mapping[str, Any]) -> TrainingRecord:
    return TrainingRecord(found["number"], found["name"], found["final_step"], found["metrics"])
