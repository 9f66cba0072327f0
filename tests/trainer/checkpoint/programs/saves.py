"""Saves checkpoints while files cannot be written any more: from each file operation on, and on a full disk."""

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path

import tensorflow as tf

from dtj_trainer.checkpoint.checkpointer import Checkpointer
from dtj_trainer.checkpoint.owner_file import OwnerFile
from dtj_trainer.errors import TrainerError
from dtj_trainer.storage.open import open_folder

EVENTS = {"open", "os.rename", "os.remove", "os.rmdir", "os.mkdir", "shutil.rmtree", "os.link", "os.truncate"}


class Killed(BaseException):
    """The process is gone: nothing after it touches a file."""


@dataclass
class FileOperations:
    """The file operations that are allowed before the process counts as dead."""

    left: int = sys.maxsize

    def hook(self, event: str, _arguments: object) -> None:
        if event in EVENTS:
            self.left -= 1
            if self.left < 0:
                raise Killed


def save(step: int) -> None:
    writer.save(step, objects, {"job.json": json.dumps({"step": step})}, lambda: None)
    value.assign(-2)  # what is trained on while the save goes on is not in it
    writer.wait_until_finished()


def owner(attempt: int) -> OwnerFile:
    return OwnerFile(open_folder(str(directory)), "u", attempt)


directory = Path(sys.argv[1])
value = tf.Variable(0, dtype=tf.int64)
large = tf.Variable(tf.zeros([int(sys.argv[2])]))
objects = {"value": value, "large": large}
writer = Checkpointer(str(directory), 2, owner(1))
found: dict[str, object] = {}
try:
    writer.claim()
    value.assign(1)
    save(1)
except TrainerError as error:
    found["message"], found["class"], found["code"] = error.message, str(error.exit_class), error.exit_code
else:
    operations = FileOperations()
    sys.addaudithook(operations.hook)
    survived: list[int] = []
    step, died = 1, True
    while died:
        value.assign(step + 1)
        operations.left, died = len(survived), False
        try:
            save(step + 1)
        except Killed:
            died = True
        operations.left = sys.maxsize
        reader = Checkpointer(str(directory), 2, None)
        name = f"ckpt-{reader.all_steps()[-1]}"
        value.assign(-1)
        reader.restore(name, objects)
        assert name == f"ckpt-{value.numpy()}", (name, value.numpy())
        assert int(value.numpy()) in {step, step + 1}
        assert json.loads((directory / "job.json").read_text())["step"] in {step, step + 1}
        survived.append(int(value.numpy()))
        step = int(value.numpy())
        if died:
            writer = Checkpointer(str(directory), 2, owner(len(survived) + 1))
            writer.claim()
    found["operations"] = len(survived) - 1
    found["left"] = sorted(path.name for path in directory.iterdir())
    found["step"] = step
sys.stdout.write("TEST " + json.dumps(found) + "\n")
sys.stdout.flush()
os._exit(0)
