"""Who makes the steps: this process and its peers in step, or the workers of a ParameterServer job."""

from typing import Any

from dtj_trainer.checkpoint.content import Position
from dtj_trainer.data.adapters import adapter
from dtj_trainer.errors import PreflightFailed
from dtj_trainer.initialization import Session
from dtj_trainer.ipc.takeover import process_takeover
from dtj_trainer.training.steps.compiled_step import Call, Caller
from dtj_trainer.training.steps.parameter_server import Closures, coordinator
from dtj_trainer.training.steps.parameter_server_data import FromChief, OnWorkers, worker_data
from dtj_trainer.training.steps.trainable import Trainee


def caller(session: Session, trainee: Trainee, data: Any, sizes: adapter.Batches, seed: int, accumulate: int) -> Caller:
    """What makes steps from `data`, once it was told the position to go on at."""
    if session.asynchronous:
        made = coordinator(session)

        def given(position: Position) -> OnWorkers | FromChief:
            return worker_data(data, session, sizes, seed, position, accumulate, made)

        return Closures(session, trainee, made, given)

    def dataset(position: Position) -> Any:
        return adapter.training_dataset(data, session, sizes, seed, position.dealt, position.batches)

    return Call(session, trainee, dataset, accumulate)


def await_turn(steps_by: Caller) -> float:
    """Come as far as can be before the position is known; a standby waits here to take over. The seconds it waited."""
    takeover = process_takeover()
    if takeover.pending:
        steps_by.prepare()
    return takeover.wait()


def refuse(session: Session, name: str) -> None:
    """Refuse what would not be trained as the program means it.

    Raises:
        PreflightFailed: the strategy is None, and there are several processes; or a second training would go on from
            the checkpoints of the first, which are at its end.
    """
    if session.trained and session.environment.checkpoint.directory:
        raise PreflightFailed(
            f"{name} was called again after a training to its end, and the job's checkpoints are of one training; "
            "train on in a job of its own with initial_weights=, or without a checkpoint directory"
        )
    if session.choice.type == "None" and session.environment.trainers > 1:
        raise PreflightFailed(
            f"strategy None leaves the training to the program, so {name} cannot share it among "
            f"{session.environment.trainers} processes; choose another strategy, or use dtj.session"
        )
