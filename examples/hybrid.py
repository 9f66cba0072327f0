"""Hybrid parallel with DTensor: the batch is split over one axis of a mesh of devices, the layers over the other.

    python hybrid.py                                one process, four devices
    kubectl apply -f hybrid-dtensor.yaml            the same mesh over two pods with two devices each

`dtj-run` sets the variables of DTensor (DTENSOR_JOBS, …) from TF_CONFIG. Keras layers cannot hold DTensor variables, so
the model is written without them: the first layer is split by columns, the second by rows, and the only communication
between the parts of the model is the sum of their outputs.
"""

import argparse
import os

import numpy as np
import tensorflow as tf
from tensorflow.experimental import dtensor

BATCH, MODEL = "batch", "model"
FEATURES, HIDDEN = 8, 32


def build_mesh(devices: int) -> dtensor.Mesh:
    """Return a mesh with 2 devices along the batch axis, and the others along the model axis."""
    processes = int(os.environ.get("DTENSOR_NUM_CLIENTS", "1"))
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * (devices // processes))
    dtensor.initialize_accelerator_system("CPU")
    return dtensor.create_distributed_mesh([(BATCH, 2), (MODEL, devices // 2)], device_type="CPU")


def put(mesh: dtensor.Mesh, value: np.ndarray, *axes: str) -> tf.Tensor:
    """Distribute a value that is equal in every process; each device keeps its part."""
    whole = dtensor.copy_to_mesh(tf.constant(value), dtensor.Layout.replicated(mesh, value.ndim))
    return dtensor.relayout(whole, dtensor.Layout(list(axes), mesh))


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--steps", type=int, default=100)
    arguments.add_argument("--devices", type=int, default=4, help="of all processes together")
    options = arguments.parse_args()

    mesh = build_mesh(options.devices)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(64, FEATURES)).astype("float32")
    y = np.sin(x.sum(1, keepdims=True))
    first = rng.normal(scale=FEATURES**-0.5, size=(FEATURES, HIDDEN)).astype("float32")
    second = rng.normal(scale=HIDDEN**-0.5, size=(HIDDEN, 1)).astype("float32")
    weights = [
        dtensor.DVariable(put(mesh, first, dtensor.UNSHARDED, MODEL)),
        dtensor.DVariable(put(mesh, second, MODEL, dtensor.UNSHARDED)),
    ]

    @tf.function
    def step(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            guess = tf.nn.tanh(x @ weights[0]) @ weights[1]
            loss = tf.reduce_mean(tf.square(guess - y))
        for weight, gradient in zip(weights, tape.gradient(loss, weights), strict=True):
            weight.assign_sub(0.1 * gradient)
        return loss

    batch = put(mesh, x, BATCH, dtensor.UNSHARDED), put(mesh, y, BATCH, dtensor.UNSHARDED)
    losses = [step(*batch) for _ in range(options.steps)]
    found = [float(dtensor.unpack(loss)[0]) for loss in (losses[0], losses[-1])]
    part = dtensor.unpack(weights[0].read_value())[0].shape
    print(
        f"loss {found[0]:.5f} before, {found[1]:.5f} after {options.steps} steps; a device has {part} of {first.shape}"
    )


if __name__ == "__main__":
    main()
