"""One device: the first GPU, or the CPU."""

from typing import Any


def build() -> Any:
    import tensorflow as tf

    gpu = bool(tf.config.list_physical_devices("GPU"))
    return tf.distribute.OneDeviceStrategy("/gpu:0" if gpu else "/cpu:0")
