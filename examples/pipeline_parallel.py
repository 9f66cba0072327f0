"""Pipeline parallelism: the layers of a model are on several devices, and micro-batches pass through them.

    kubectl apply -f pipeline-parallel.yaml         one pod with four devices
    DTJ_STRATEGY='{"type": "None"}' DTJ_LOGICAL_DEVICES=4 python pipeline_parallel.py      the same on a laptop

A device works on one micro-batch while the next device works on the one before it, because TensorFlow runs every op
whose inputs are ready. The gradients of the micro-batches are summed, so the model learns the same as on one device.
The advantage is memory: each device holds only its own layers.
"""

import argparse
from pathlib import Path

import numpy as np
import tensorflow as tf

import dtj

WIDTHS = (64, 96, 96, 96, 10)


class Stage(tf.Module):
    """A layer and its device."""

    def __init__(self, number: int, device: str) -> None:
        super().__init__()
        inputs, outputs = WIDTHS[number : number + 2]
        self.device, self.is_last = device, number == len(WIDTHS) - 2
        with tf.device(device):
            start = tf.random.stateless_normal([inputs, outputs], [number, 0], stddev=(2 / inputs) ** 0.5)
            self.kernel, self.bias = tf.Variable(start), tf.Variable(tf.zeros([outputs]))

    def __call__(self, inputs: tf.Tensor) -> tf.Tensor:
        with tf.device(self.device):
            outputs = inputs @ self.kernel + self.bias
            return outputs if self.is_last else tf.nn.relu(outputs)


class Model(tf.Module):
    """The stages, spread over the devices in order."""

    def __init__(self) -> None:
        super().__init__()
        devices = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
        stages = len(WIDTHS) - 1
        self.stages = [Stage(number, devices[number * len(devices) // stages].name) for number in range(stages)]

    def __call__(self, images: tf.Tensor) -> tf.Tensor:
        for stage in self.stages:
            images = stage(images)
        return images


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--epochs", type=int, default=12)
    arguments.add_argument("--micro-batches", type=int, default=4)
    arguments.add_argument("--data", type=Path, default=Path(__file__).with_name("digits.npz"))
    options = arguments.parse_args()

    dtj.init()
    digits = np.load(options.data)
    images = (digits["x_train"].reshape(-1, 64) / 16).astype("float32")

    def step(model: Model, batch: tuple[tf.Tensor, tf.Tensor]) -> dict[str, tf.Tensor]:
        parts = [tf.split(tensor, options.micro_batches) for tensor in batch]
        with tf.GradientTape() as tape:
            logits = [model(part) for part in parts[0]]
            losses = [
                tf.nn.sparse_softmax_cross_entropy_with_logits(tf.cast(labels, tf.int32), each)
                for labels, each in zip(parts[1], logits, strict=True)
            ]
            loss = tf.reduce_mean(tf.stack(losses))
        for variable, gradient in zip(
            model.trainable_variables, tape.gradient(loss, model.trainable_variables), strict=True
        ):
            variable.assign_sub(0.1 * gradient)
        right = tf.cast(tf.argmax(tf.concat(logits, 0), 1), batch[1].dtype) == batch[1]
        return {"loss": loss, "accuracy": tf.reduce_mean(tf.cast(right, tf.float32))}

    built: list[Model] = []

    def state() -> Model:
        built.append(Model())
        return built[0]

    data = dtj.data.Pipeline(dtj.data.numpy(images, digits["y_train"]), shuffle=2000)
    result = dtj.train(step, state=state, data=data, epochs=options.epochs, batch_size=120)
    places = sorted({variable.device.rsplit("/", 1)[-1] for variable in built[0].variables})
    loss, accuracy = (result.metrics[name] for name in ("loss", "accuracy"))
    print(f"loss {loss:.6f}, accuracy {accuracy:.3f} after {result.step} steps on {', '.join(places)}")


if __name__ == "__main__":
    main()
