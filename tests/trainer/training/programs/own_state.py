"""Trains by a step that counts itself; may be asked to leave."""

import json
import os
import sys
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import dtj

ASKED_AT = int(os.environ.get("TEST_ASKED_AT", "0"))

session = dtj.init(deterministic=True, seed=1)
x = np.random.default_rng(0).normal(size=(240, 8)).astype("float32")
y = x[:, :3].sum(1, keepdims=True)
held: dict[str, Any] = {}


def state() -> dict[str, Any]:
    held["model"] = keras.Sequential([keras.Input((8,)), keras.layers.Dropout(0.3), keras.layers.Dense(1)])
    held["optimizer"] = keras.optimizers.SGD(0.05)
    held["step"] = tf.Variable(0, dtype=tf.int64, aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA)
    return held


def step(state: dict[str, Any], batch: Any) -> dict[str, Any]:
    variables = state["model"].trainable_variables
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(state["model"](batch[0], training=True) - batch[1]))
    state["optimizer"].apply(tape.gradient(loss, [variable.value for variable in variables]), variables)
    state["step"].assign_add(1)
    return {"loss": loss}


class Leaves(keras.callbacks.Callback):
    steps = 0

    def on_train_batch_end(self, batch: int, logs: object = None) -> None:
        self.steps += 1
        if self.steps == ASKED_AT:
            session.commands.preempted.set()


data = dtj.data.Pipeline(dtj.data.numpy(x, y))
result = dtj.train(step, state=state, data=data, epochs=2, batch_size=24, callbacks=[Leaves()])
told: dict[str, Any] = {"weights": [float(value) for w in held["model"].get_weights() for value in np.ravel(w)]}
told |= {"counted": int(held["step"].numpy()), "loss": result.metrics["loss"]}
sys.stdout.write("TEST " + json.dumps(told) + "\n")
sys.stdout.flush()
os._exit(0)
