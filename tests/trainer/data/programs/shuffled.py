"""Trains on a plain Dataset, shuffled with or without a seed."""

import json
import os
import sys

import tensorflow as tf

import dtj

dtj.init()
seed = int(sys.argv[1]) if len(sys.argv) > 1 else None
data = tf.data.Dataset.range(24).interleave(lambda n: tf.data.Dataset.from_tensors(n).shuffle(5, seed=seed)).batch(4)


def new_state():
    return {"sum": tf.Variable(0, dtype=tf.int64, aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA)}


def step(state, batch):
    state["sum"].assign_add(dtj.all_reduce(tf.reduce_sum(batch), "sum"))
    return {"loss": tf.constant(0.0)}


state = new_state()
result = dtj.train(step, state=state, data=data, epochs=1)
sys.stdout.write("TEST " + json.dumps({"step": result.step, "sum": int(state["sum"].numpy())}) + "\n")
sys.stdout.flush()
os._exit(0)
