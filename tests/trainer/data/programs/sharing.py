"""Trains on the files of a directory and writes down which examples each step saw; may die at a step."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tensorflow as tf

import dtj

KIND, FOLDER, OUT = sys.argv[1], sys.argv[2], Path(sys.argv[3])
FOLDER = FOLDER.format(index=json.loads(os.environ["TF_CONFIG"])["task"]["index"]) if "{" in FOLDER else FOLDER
DIE_AT = int(os.environ.get("TEST_DIE_AT", "0"))
dtj.init(deterministic=True, seed=3)


def parsed(record):
    return tf.io.parse_single_example(record, {"id": tf.io.FixedLenFeature([], tf.int64)})


SOURCES: dict[str, Callable[[], Any]] = {
    "parquet": lambda: dtj.data.parquet(FOLDER, columns=["id"]),
    "csv": lambda: dtj.data.csv(FOLDER, columns=["id"]),
    "tfrecord": lambda: dtj.data.tfrecord(FOLDER, parsed),
}
mapped = (lambda each: {"id": each["id"] + 0}) if os.environ.get("TEST_MAP") else None
size: dict[str, Any] = {}
data: Any
if KIND == "dataset":
    data = tf.data.Dataset.from_tensor_slices({"id": tf.range(96)}).batch(int(FOLDER), drop_remainder=True)
else:
    data = dtj.data.Pipeline(SOURCES[KIND](), shuffle=7, cache=bool(os.environ.get("TEST_CACHE")), map=mapped)
    size = {"batch_size": 6}
log = (OUT / f"{os.getpid()}.log").open("a")


def write(step, ids):
    if DIE_AT and int(step) == DIE_AT:
        os._exit(137)
    log.write(" ".join(map(str, [int(step), *ids.numpy().tolist()])) + "\n")
    log.flush()


class State(tf.Module):
    def __init__(self):
        super().__init__()
        self.steps = tf.Variable(0, dtype=tf.int64, aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA)


def new_state():
    return State()


def train_step(state, batch):
    tf.py_function(write, [state.steps.read_value() + 1, batch["id"]], [])
    state.steps.assign_add(1)
    return {"loss": tf.constant(0.0)}


result = dtj.train(train_step, state=new_state, data=data, epochs=2, **size)
sys.stdout.write(f'TEST {{"step": {result.step}}}\n')
sys.stdout.flush()
os._exit(0)
