"""Several devices in one process: all GPUs, or all logical CPUs where there is no GPU."""

from typing import Any

from dtj_trainer.errors import PreflightFailed
from dtj_trainer.strategy.choose import Choice


def build(choice: Choice) -> Any:
    import tensorflow as tf

    gpus = tf.config.list_logical_devices("GPU")
    devices = [device.name for device in gpus or tf.config.list_logical_devices("CPU")]
    return tf.distribute.MirroredStrategy(devices, cross_device_ops=_cross_device_ops(tf, choice, gpus=bool(gpus)))


def _cross_device_ops(tf: Any, choice: Choice, *, gpus: bool) -> Any:
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
