"""From the choice to a strategy object."""

from typing import Any

from dtj_trainer.environment import Environment
from dtj_trainer.errors import UserError
from dtj_trainer.failures import built_too_late
from dtj_trainer.strategy import mirrored, multi_worker, one_device
from dtj_trainer.strategy.choice import Choice

LATE = (
    "TensorFlow ran an op before the strategy was built; call dtj.init() at the top of the program, "
    "before any model, dataset or tensor is made"
)


def build(choice: Choice, environment: Environment) -> Any:
    """Build the chosen strategy.

    Raises:
        UserError: TensorFlow was used too early, or the strategy cannot serve the trainer's loop.
    """
    try:
        match choice.type:
            case "OneDevice":
                return one_device.build()
            case "Mirrored":
                return mirrored.build(choice)
            case "MultiWorkerMirrored":
                return multi_worker.build(choice, environment)
            case _:
                raise UserError(f"dtj.init() does not build {choice.type} yet; use Mirrored or MultiWorkerMirrored")
    except RuntimeError as error:
        if built_too_late(error):
            raise UserError(LATE) from error
        raise
