"""Trains with a validation of which the last process has most; the first may be asked to leave meanwhile."""

import json
import os
import sys
import threading
import time

import keras
import numpy as np
import tensorflow as tf

import dtj

EPOCHS, STEPS, BATCHES, FIRST = 3, 10, 60, 4
ASKED_IN = int(os.environ.get("TEST_ASKED_IN", EPOCHS))

session = dtj.init(seed=1)
x = np.random.default_rng(0).normal(size=(480, 4)).astype("float32")
y = x[:, :1]
told: list[dict[str, float]] = []
begun: list[int] = []
batches: list[int] = []
"""How many this process has trained on or evaluated, by epoch."""


class Listener(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch: int, logs: object = None) -> None:
        begun.append(epoch)
        batches.append(0)

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        told.append({"epoch": epoch, **(logs or {})})
        sys.stdout.write("TEST " + json.dumps({"told": told, "begun": begun}) + "\n")
        sys.stdout.flush()

    def on_test_end(self, logs: dict[str, float] | None = None) -> None:
        print(f"validated, loss {(logs or {})['loss']}", flush=True)  # noqa: T201 - told to the test


class ByBatch(Listener):
    """Hears of each batch, so that each is evaluated by itself."""

    def on_test_batch_end(self, batch: int, logs: object = None) -> None:
        return


def work() -> None:
    """Of the first of several processes the validation is over when it is asked: it waits for the others."""
    time.sleep(0.01)
    batches[-1] += 1
    if begun[-1] == ASKED_IN and session.rank == 0 and batches[-1] == STEPS + FIRST:
        threading.Timer(0.1, session.commands.preempted.set).start()


def worked(_: tf.Tensor, predicted: tf.Tensor) -> tf.Tensor:
    with tf.control_dependencies([tf.py_function(work, [], [])]):
        return tf.ones_like(predicted)


def validation(context: tf.distribute.InputContext) -> tf.data.Dataset:
    dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(len(x) // BATCHES)
    if context.num_input_pipelines == 1:
        return dataset
    return dataset.skip(FIRST) if session.rank else dataset.take(FIRST)


model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
model.compile(keras.optimizers.SGD(0.05), "mse", metrics=["mae", worked])
listener = ByBatch() if os.environ.get("TEST_BY_BATCH") else Listener()
data = dtj.data.Pipeline(dtj.data.numpy(x, y))
dtj.fit(model, data, validation_data=validation, epochs=EPOCHS, batch_size=len(x) // STEPS, callbacks=[listener])
os._exit(0)
