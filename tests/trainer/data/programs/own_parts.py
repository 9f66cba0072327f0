"""Trains on fn(ctx): each worker has data of its own, and not equally much of it."""

import json
import os
import sys

import keras
import numpy as np
import tensorflow as tf

import dtj

session = dtj.init(seed=1)
SIZES = json.loads(os.environ["TEST_SIZES"])
"""The sizes of the batches of each worker."""
VALIDATION = json.loads(os.environ.get("TEST_VALIDATION", "null"))


STEPS = 10


def batches(sizes, seed):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(size, 4)).astype("float32") for size in sizes]


def dataset(parts):
    return tf.data.Dataset.from_generator(
        lambda: ((x, x[:, :1]) for x in parts),
        output_signature=(tf.TensorSpec([None, 4]), tf.TensorSpec([None, 1])),
    )


def own(sizes):
    return lambda ctx: dataset(batches(sizes[ctx.input_pipeline_id], ctx.input_pipeline_id))


def together():
    """Return the batches that all workers train together in each step."""
    parts = [batches(sizes, worker) for worker, sizes in enumerate(SIZES)]
    return [np.concatenate([part[step % len(part)] for part in parts]) for step in range(STEPS)]


model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
model.compile(keras.optimizers.SGD(0.1), "mse")
history = dtj.fit(
    model,
    dataset(together()) if os.environ.get("TEST_TOGETHER") else own(SIZES),
    validation_data=own(VALIDATION) if VALIDATION else None,
    epochs=2,
    steps_per_epoch=STEPS // 2,
)
weights = [float(value) for each in model.get_weights() for value in np.ravel(each)]
told = {"step": history.step, "weights": weights, "logs": history.history}
sys.stdout.write("TEST " + json.dumps(told) + "\n")
sys.stdout.flush()
os._exit(0)
