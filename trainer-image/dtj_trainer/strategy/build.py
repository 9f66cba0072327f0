"""From the choice to a strategy object."""

from collections.abc import Callable, Mapping
from typing import Any

from dtj_trainer.cluster.environment import Environment
from dtj_trainer.errors import UserError
from dtj_trainer.exit_status import built_too_late
from dtj_trainer.strategy import central_storage, mirrored, multi_worker, one_device, parameter_server, tpu
from dtj_trainer.strategy.choose import Choice

LATE = (
    "TensorFlow ran an op before the strategy was built; call dtj.init() at the top of the program, "
    "before any model, dataset or tensor is made"
)


def build(choice: Choice, environment: Environment) -> Any:
    """Build the chosen strategy.

    Raises:
        UserError: TensorFlow was used too early.
        PreflightFailed: what the strategy needs is not there.
    """
    try:
        return _BUILDERS[choice.type](choice, environment)
    except RuntimeError as error:
        if built_too_late(error):
            raise UserError(LATE) from error
        raise


def _default() -> Any:
    """None: the program has its own opinion; TensorFlow's default strategy, one replica, stays."""
    import tensorflow as tf

    return tf.distribute.get_strategy()


_BUILDERS: Mapping[str, Callable[[Choice, Environment], Any]] = {
    "OneDevice": lambda _, __: one_device.build(),
    "Mirrored": lambda choice, _: mirrored.build(choice),
    "MultiWorkerMirrored": multi_worker.build,
    "ParameterServer": parameter_server.build,
    "CentralStorage": lambda _, __: central_storage.build(),
    "TPU": lambda _, environment: tpu.build(environment),
    "None": lambda _, __: _default(),
}
