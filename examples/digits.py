"""A small convolutional network learns to read handwritten digits.

    python digits.py                            on a laptop: one process, no cluster
    kubectl apply -f digits-multiworker.yaml    the same file, 2 workers on 2 nodes

Nothing in here names a strategy: the manifests digits-*.yaml choose it. The data, digits.npz, lies beside this file:
1,797 real images of 8 x 8 pixels (see make_digits.py).
"""

import argparse
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

import dtj

GLOBAL_BATCH = 120  # divides by 2, 3, 4, 5, 6 and 8 workers; so do the 360 test images


def build_model(dropout: float) -> keras.Model:
    model = keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Rescaling(1 / 16),
            keras.layers.Conv2D(16, 3, padding="same", activation="relu"),
            keras.layers.Conv2D(32, 3, padding="same", activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Conv2D(64, 3, padding="same", activation="relu"),
            keras.layers.Flatten(),
            *dropped(dropout),
            keras.layers.Dense(64, activation="relu"),
            *dropped(dropout),
            keras.layers.Dense(10, dtype="float32"),  # also under mixed precision
        ]
    )
    model.compile(
        optimizer=keras.optimizers.Adam(3e-3),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    return model


def dropped(rate: float) -> list[keras.layers.Layer]:
    return [keras.layers.Dropout(rate)] if rate else []


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--epochs", type=int, default=12)
    arguments.add_argument("--steps-per-epoch", type=int, default=100)
    arguments.add_argument("--dropout", type=float, default=0.4, help="0 leaves it out, as CentralStorage demands")
    arguments.add_argument("--accumulate", type=int, default=1, help="global batches that make one update")
    arguments.add_argument("--mixed-precision", choices=("float16", "bfloat16"))
    arguments.add_argument("--data", type=Path, default=Path(__file__).with_name("digits.npz"))
    options = arguments.parse_args()

    dtj.init()
    digits = np.load(options.data)
    train = dtj.data.Pipeline(dtj.data.numpy(digits["x_train"][..., None], digits["y_train"]), shuffle=2000)
    test = tf.data.Dataset.from_tensor_slices((digits["x_test"][..., None], digits["y_test"])).batch(GLOBAL_BATCH)

    result = dtj.fit(
        lambda: build_model(options.dropout),
        train,
        validation_data=test,
        epochs=options.epochs,
        steps_per_epoch=options.steps_per_epoch,
        batch_size=GLOBAL_BATCH,
        accumulate=options.accumulate,
        mixed_precision=options.mixed_precision,
    )
    print(f"test accuracy {result.metrics['val_accuracy']:.3f} after {result.step} steps")


if __name__ == "__main__":
    main()
