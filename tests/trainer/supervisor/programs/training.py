# ruff: noqa: T201 - the test reads what is printed
"""Trains a small model under `dtj-run`, slowly. Arguments: steps, and `wait` for data that never comes, or `export` for
an export that does not end.

TEST_FLUSH_SECONDS: so long takes the disk to flush the first file of a checkpoint.
"""

import os
import sys
import time
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

import dtj

dtj.init(seed=1)
print("SAY begin", os.getpid(), flush=True)
x = np.random.default_rng(0).normal(size=(240, 8)).astype("float32")
y = x[:, :3].sum(1, keepdims=True)
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(4), keras.layers.Dense(1)])
model.compile(keras.optimizers.SGD(0.01), "mse")


flush = os.fsync


def slow_flush(file):
    if "/ckpt-" in str(Path(f"/proc/self/fd/{file}").readlink()):
        os.fsync = flush
        print("SAY flushing", flush=True)
        time.sleep(float(os.environ["TEST_FLUSH_SECONDS"]))
    flush(file)


if "TEST_FLUSH_SECONDS" in os.environ:
    os.fsync = slow_flush


class Slow(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        time.sleep(float(os.environ.get("TEST_STEP_SECONDS", "0.02")))


def never(_context):
    def wait():
        time.sleep(600)
        yield x, y

    return tf.data.Dataset.from_generator(
        wait, output_signature=(tf.TensorSpec([240, 8]), tf.TensorSpec([240, 1]))
    ).repeat()


if sys.argv[2:] == ["wait"]:
    dtj.fit(model, never, steps=1)
if sys.argv[2:] == ["export"]:
    model.export = lambda *_, **__: time.sleep(600)
result = dtj.fit(
    model,
    dtj.data.Pipeline(dtj.data.numpy(x, y)),
    steps=int(sys.argv[1]),
    batch_size=24,
    callbacks=[Slow()],
    export="exported" if sys.argv[2:] == ["export"] else None,
)
print("SAY resumed", result.resumed_from, flush=True)
