"""Builds the chosen strategy; those of a single process here, the others in their own modules."""

from collections.abc import Callable, Mapping
from typing import Any

from dtj_trainer.cluster.environment import Environment
from dtj_trainer.compat.types import Strategy
from dtj_trainer.errors import PreflightFailed, UserError
from dtj_trainer.exit_status import is_strategy_too_late
from dtj_trainer.strategy import multi_worker, parameter_server, tpu
from dtj_trainer.strategy.choose import Choice

LATE = (
    "TensorFlow ran an op before the strategy was built; call dtj.init() at the top of the program, "
    "before any model, dataset or tensor is made"
)


def build(choice: Choice, environment: Environment) -> Strategy:
    """Build the chosen strategy.

    Raises:
        UserError: TensorFlow was used too early.
        PreflightFailed: devices or roles that the strategy needs are missing.
    """
    try:
        return _BUILDERS[choice.type](choice, environment)
    except RuntimeError as error:
        if is_strategy_too_late(error):
            raise UserError(LATE) from error
        raise


def _one_device() -> Strategy:
    """Return a strategy of the first GPU, or the CPU."""
    import tensorflow as tf

    gpu = bool(tf.config.list_physical_devices("GPU"))
    return tf.distribute.OneDeviceStrategy("/gpu:0" if gpu else "/cpu:0")


def _mirrored(choice: Choice) -> Strategy:
    """Return a strategy of several devices in one process: all GPUs, or all logical CPUs where there is no GPU."""
    import tensorflow as tf

    gpus = bool(tf.config.list_logical_devices("GPU"))
    return tf.distribute.MirroredStrategy(_devices(), cross_device_ops=_cross_device_ops(choice, gpus=gpus))


def _central_storage() -> Strategy:
    """Return a strategy with one copy of the variables on the host, used by every device of this process.

    TensorFlow calls it experimental. With one device, or on CPUs, it is Mirrored without the copies. Keras 3 cannot
    train BatchNormalization under it, and sums of Keras metrics come out wrong there.
    """
    import tensorflow as tf

    return tf.distribute.experimental.CentralStorageStrategy(_devices(), parameter_device="/cpu:0")


def _default() -> Strategy:
    """Return TensorFlow's default strategy, one replica: with None the program makes its own."""
    import tensorflow as tf

    return tf.distribute.get_strategy()


def _devices() -> list[str]:
    import tensorflow as tf

    return [device.name for device in tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")]


def _cross_device_ops(choice: Choice, *, gpus: bool) -> Any:
    import tensorflow as tf

    name = str(choice.options.get("crossDeviceOps") or "Auto")
    match name:
        case "Auto":
            return None if gpus else tf.distribute.ReductionToOneDevice()
        case "NCCL":
            if not gpus:
                raise PreflightFailed("NCCL needs GPUs and there is none here; set crossDeviceOps to Auto")
            return tf.distribute.NcclAllReduce()
        case "HierarchicalCopy":
            return tf.distribute.HierarchicalCopyAllReduce()
        case "ReductionToOneDevice":
            return tf.distribute.ReductionToOneDevice()
        case _:
            raise PreflightFailed(
                f"crossDeviceOps {name!r} is unknown; use Auto, NCCL, HierarchicalCopy or ReductionToOneDevice"
            )


_BUILDERS: Mapping[str, Callable[[Choice, Environment], Strategy]] = {
    "OneDevice": lambda _, __: _one_device(),
    "Mirrored": lambda choice, _: _mirrored(choice),
    "MultiWorkerMirrored": multi_worker.build,
    "ParameterServer": parameter_server.build,
    "CentralStorage": lambda _, __: _central_storage(),
    "TPU": lambda _, environment: tpu.build(environment),
    "None": lambda _, __: _default(),
}
