"""One device: the first GPU, or the CPU."""

from typing import Any

from dtj_trainer.strategy.choice import Choice


def build(choice: Choice) -> Any:
    import tensorflow as tf

    gpu = bool(tf.config.list_physical_devices("GPU"))
    return tf.distribute.OneDeviceStrategy("/gpu:0" if gpu else "/cpu:0")
