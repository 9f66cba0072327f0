"""Trains some rows of a table that is larger than all else that the processes have."""

import json
import os
import sys
from pathlib import Path

import numpy as np
import tensorflow as tf

import dtj

ROWS, WIDTH = 750_000, 100
MEGABYTES = ROWS * WIDTH * 4 / 1e6

dtj.init(seed=1)
ids = np.random.default_rng(0).integers(0, ROWS, size=(480,))
made: dict[str, tf.Variable] = {}


def state() -> dict[str, tf.Variable]:
    made["table"] = tf.Variable(lambda: tf.zeros([ROWS, WIDTH]), shape=(ROWS, WIDTH), dtype=tf.float32)
    return made


def step(held: dict[str, tf.Variable], batch: tf.Tensor) -> dict[str, tf.Tensor]:
    parts = getattr(held["table"], "variables", [held["table"]])
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(tf.nn.embedding_lookup(held["table"], batch[0]) - 1.0))
    for part, gradient in zip(parts, tape.gradient(loss, parts), strict=True):
        part.scatter_sub(tf.IndexedSlices(gradient.values, gradient.indices))
    return {"loss": loss}


dtj.train(step, state=state, data=dtj.data.Pipeline(dtj.data.numpy(ids, ids)), epochs=1, batch_size=24)
(peak,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
told = {
    "shards": len(getattr(made["table"], "variables", [None])),
    "megabytes": MEGABYTES,
    "peak": int(peak.split()[1]) / 1024,
}
sys.stdout.write("TEST " + json.dumps(told) + "\n")
sys.stdout.flush()
os._exit(0)
