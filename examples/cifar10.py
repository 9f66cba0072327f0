"""A convolutional network learns CIFAR-10, on any number of machines with any number of devices each.

    kubectl apply -f cifar10-multiworker.yaml

Reads the data set's own binary files: data_batch_1.bin to data_batch_5.bin and test_batch.bin, as extracted from
cifar-10-binary.tar.gz. A record is one byte of label and 32 x 32 bytes each of red, green and blue.

The batch is given per replica. With n replicas the global batch is n times as large, and the learning rate grows with
it, over five epochs of warm-up (`learning_rate_scaling` of dtj.fit).
"""

import argparse
import sys
from pathlib import Path

import keras
import numpy as np

import dtj

SIDE, COLOURS = 32, 3
RECORD = 1 + COLOURS * SIDE * SIDE


def read(folder: Path, pattern: str) -> tuple[np.ndarray, np.ndarray]:
    """Return images (examples, 32, 32, 3) and labels, both uint8."""
    files = sorted(folder.glob(pattern))
    if not files:
        sys.exit(f"there is no {pattern} in {folder}; unpack cifar-10-binary.tar.gz and give its folder as --data")
    for file in files:
        if file.stat().st_size % RECORD:
            sys.exit(f"{file} is no file of CIFAR-10's binary version: its size is no multiple of {RECORD} bytes")
    records = np.concatenate([np.fromfile(file, np.uint8).reshape(-1, RECORD) for file in files])
    planes = records[:, 1:].reshape(-1, COLOURS, SIDE, SIDE)
    return np.ascontiguousarray(planes.transpose(0, 2, 3, 1)), records[:, 0]


def build_model(blocks: int, width: int) -> keras.Model:
    """Build a small VGG: blocks of two convolutions, `width` filters in the first block, doubled in each next one."""
    layers = [
        keras.Input((SIDE, SIDE, COLOURS)),
        keras.layers.Rescaling(1 / 255),
        keras.layers.RandomFlip("horizontal"),
        keras.layers.RandomTranslation(0.1, 0.1, fill_mode="constant"),
    ]
    for block in range(blocks):
        for _ in range(2):
            layers += [
                keras.layers.Conv2D(width * 2**block, 3, padding="same", use_bias=False),
                keras.layers.BatchNormalization(momentum=0.9),
                keras.layers.ReLU(),
            ]
        layers.append(keras.layers.MaxPooling2D())
    layers += [keras.layers.GlobalAveragePooling2D(), keras.layers.Dropout(0.3), keras.layers.Dense(10)]
    model = keras.Sequential(layers)
    model.compile(
        optimizer=keras.optimizers.SGD(0.02, momentum=0.9, nesterov=True),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    return model


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--data", type=Path, default=Path("cifar-10-batches-bin"))
    arguments.add_argument("--epochs", type=int, default=30)
    arguments.add_argument("--per-replica-batch", type=int, default=64)
    arguments.add_argument("--blocks", type=int, default=3)
    arguments.add_argument("--width", type=int, default=64)
    options = arguments.parse_args()

    dtj.init(seed=1)
    train = dtj.data.Pipeline(dtj.data.numpy(*read(options.data, "data_batch_*.bin")), shuffle=50_000)
    test = dtj.data.Pipeline(dtj.data.numpy(*read(options.data, "test_batch.bin")))
    result = dtj.fit(
        build_model(options.blocks, options.width),
        train,
        validation_data=test,
        epochs=options.epochs,
        per_replica_batch_size=options.per_replica_batch,
    )
    print(f"test accuracy {result.metrics['val_accuracy']:.3f} after {result.step} steps")


if __name__ == "__main__":
    main()
