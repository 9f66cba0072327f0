"""The end of the program: done.json is written when it has ended with 0, not when its last training has.

What comes after the last training is part of the job. Without `dtj-run` nothing can see how a program ends, so there is
no done.json: a program that is started again passes through its finished trainings and runs the rest again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dtj_trainer.checkpoint import done_file
from dtj_trainer.checkpoint.done_file import DoneFile
from dtj_trainer.checkpoint.owner_file import OwnerFile
from dtj_trainer.storage.open import open_folder

if TYPE_CHECKING:
    from dtj_trainer.context import TrainContext

POLL_SECONDS = 1.0

_contexts: list[TrainContext] = []


def watch_program(context: TrainContext) -> None:
    """Have `program_ended` look after this context; called once, by `dtj.init()`."""
    _contexts.append(context)


def is_watched() -> bool:
    """Return whether the program has called `dtj.init()`."""
    return bool(_contexts)


def chief_has_ended() -> bool:
    """Return whether done.json says that the chief's program has ended with 0."""
    return any(
        done_file.read(context.environment.checkpoint.directory, context.environment.job_hash) is not None
        for context in _contexts
    )


def program_ended() -> None:
    """Write done.json, on the chief of a program that has trained; in its evaluator, wait until the chief has.

    Raises:
        Exception: what has interrupted a training, where the program has caught it and gone on.
        Fenced: a newer attempt owns the checkpoint directory.
        UserError: the disk is full.
        PeerLost: the volume or the store fails.
    """
    for context in _contexts:
        if context.interrupted is not None:
            raise context.interrupted
        environment, finished = context.environment, context.finished
        directory = environment.checkpoint.directory
        if not directory or finished is None:
            continue
        if context.role == "evaluator":
            while not chief_has_ended():
                if context.commands.preempted.wait(POLL_SECONDS):
                    return
        elif context.is_chief:
            from dtj_trainer.checkpoint.checkpointer import Checkpointer

            owner = OwnerFile(open_folder(directory), environment.job_hash, environment.attempt)
            done = DoneFile(finished.step, finished.metrics)
            Checkpointer(directory, environment.checkpoint.keep, owner).write_done_file(done)
