"""One copy of the variables on the host, computed with on every device of this process.

TensorFlow calls it experimental. With one device, or on CPUs, it is Mirrored without the copies. Keras 3 cannot train
BatchNormalization under it, and sums of Keras metrics come out wrong there.
"""

from typing import Any


def build() -> Any:
    import tensorflow as tf

    gpus = tf.config.list_logical_devices("GPU")
    devices = [device.name for device in gpus or tf.config.list_logical_devices("CPU")]
    return tf.distribute.experimental.CentralStorageStrategy(devices, parameter_device="/cpu:0")
