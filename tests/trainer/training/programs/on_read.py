"""Trains a state that is a dict of variables, one of which has a part of its own in each process."""

import json
import os
import sys

import numpy as np
import tensorflow as tf

import dtj

dtj.init()


def state():
    each = {"synchronization": tf.VariableSynchronization.ON_READ, "aggregation": tf.VariableAggregation.SUM}
    return {"weight": tf.Variable(1.0), "seen": tf.Variable(0.0, trainable=False, **each)}


def step(held, batch):
    held["weight"].assign_sub(dtj.all_reduce(held["weight"] * 0.01))
    held["seen"].assign_add(1.0)
    return {"loss": tf.reduce_mean(batch)}


data = dtj.data.Pipeline(dtj.data.numpy(np.ones((64, 2), "float32"), np.ones(64, "float32")), map=lambda x, _: x)
result = dtj.train(step, state=state, data=data, steps=6, batch_size=8)
sys.stdout.write("TEST " + json.dumps({"step": result.step}) + "\n")
sys.stdout.flush()
os._exit(0)
