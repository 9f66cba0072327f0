"""Handwritten digits again, with a custom training step: half of the training images are attacked.

    python adversarial.py
    kubectl apply -f adversarial.yaml

Each image is used twice per step: unchanged, and shifted by one grey value along the sign of the loss's gradient
(Goodfellow, Shlens, Szegedy: Explaining and Harnessing Adversarial Examples, 2015). Keras' `fit` does not support that;
`dtj.train` takes the step as a function and runs it in the same loop, with the same checkpoints and recovery, as
`dtj.fit`.
"""

import argparse
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import dtj

GLOBAL_BATCH = 120
MOVE = 1.0  # grey values, of 16

State = dict[str, Any]
Batch = tuple[tf.Tensor, tf.Tensor]


def make_state() -> State:
    model = keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Rescaling(1 / 16),
            keras.layers.Conv2D(32, 3, padding="same", activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Conv2D(64, 3, padding="same", activation="relu"),
            keras.layers.Flatten(),
            keras.layers.Dense(10),
        ]
    )
    optimizer = keras.optimizers.Adam(2e-3)
    optimizer.build(model.trainable_variables)
    return {"model": model, "optimizer": optimizer}


def loss_of(model: keras.Model, images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    logits = model(images, training=True)
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))


def attacked(model: keras.Model, images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    with tf.GradientTape() as tape:
        tape.watch(images)
        loss = loss_of(model, images, labels)
    return tf.clip_by_value(images + MOVE * tf.sign(tape.gradient(loss, images)), 0.0, 16.0)


def train_step(state: State, batch: Batch) -> dict[str, tf.Tensor]:
    """Make one update from the batch of one replica; the returned scalars are averaged over the replicas."""
    model, (images, labels) = state["model"], batch
    against = attacked(model, images, labels)
    with tf.GradientTape() as tape:
        loss = 0.5 * (loss_of(model, images, labels) + loss_of(model, against, labels))
        # Keras' optimizers add up the gradients of all replicas: each contributes its share of the mean.
        share = loss / tf.distribute.get_strategy().num_replicas_in_sync
    gradients = tape.gradient(share, [variable.value for variable in model.trainable_variables])
    state["optimizer"].apply(gradients, model.trainable_variables)
    return {"loss": loss}


def validation_step(state: State, batch: Batch) -> dict[str, tf.Tensor]:
    model, (images, labels) = state["model"], batch

    def accuracy(given: tf.Tensor) -> tf.Tensor:
        guessed = tf.argmax(model(given, training=False), -1, tf.int32)
        return tf.reduce_mean(tf.cast(guessed == labels, tf.float32))

    return {"accuracy": accuracy(images), "attacked_accuracy": accuracy(attacked(model, images, labels))}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--epochs", type=int, default=12)
    arguments.add_argument("--steps-per-epoch", type=int, default=100)
    arguments.add_argument("--data", type=Path, default=Path(__file__).with_name("digits.npz"))
    options = arguments.parse_args()

    dtj.init()
    digits = np.load(options.data)

    def examples(which: str) -> dtj.data.Pipeline:
        images = digits[f"x_{which}"][..., None].astype("float32")
        return dtj.data.Pipeline(dtj.data.numpy(images, digits[f"y_{which}"].astype("int32")), shuffle=2000)

    result = dtj.train(
        train_step,
        state=make_state,
        data=examples("train"),
        validation_data=examples("test"),
        validation_step=validation_step,
        epochs=options.epochs,
        steps_per_epoch=options.steps_per_epoch,
        batch_size=GLOBAL_BATCH,
    )
    metrics = result.metrics
    print(
        f"test accuracy {metrics['val_accuracy']:.3f}, under attack {metrics['val_attacked_accuracy']:.3f}, "
        f"after {result.step} steps"
    )


if __name__ == "__main__":
    main()
