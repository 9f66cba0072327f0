"""Trains states that are not all built by a step of one's own; tells the loss, or why it was refused."""

import json
import os
import sys
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import dtj

dtj.init(seed=1)
x = np.random.default_rng(0).normal(size=(240, 8)).astype("float32")
y = x[:, :3].sum(1, keepdims=True)


def lazy() -> dict[str, Any]:
    return {"model": keras.Sequential([keras.layers.Dense(1)]), "optimizer": keras.optimizers.SGD(0.05)}


def lazy_optimizer() -> dict[str, Any]:
    keras.utils.set_random_seed(3)
    return {**lazy(), "model": keras.Sequential([keras.Input((8,)), keras.layers.Dense(1)])}


def two_optimizers() -> dict[str, Any]:
    return {**lazy_optimizer(), "other": keras.optimizers.SGD(0.05)}


def no_trackable() -> dict[str, Any]:
    return {**lazy_optimizer(), "note": object()}


def step(state: dict[str, Any], batch: Any) -> dict[str, Any]:
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(state["model"](batch[0], training=True) - batch[1]))
        share = loss / tf.distribute.get_strategy().num_replicas_in_sync
    variables = state["model"].trainable_variables
    state["optimizer"].apply(tape.gradient(share, [variable.value for variable in variables]), variables)
    return {"loss": loss}


told: dict[str, object] = {}
for state in (lazy, lazy_optimizer, two_optimizers, no_trackable):
    data = dtj.data.Pipeline(dtj.data.numpy(x, y))
    try:
        told[state.__name__] = dtj.train(step, state=state, data=data, steps=8, batch_size=24).metrics["loss"]
    except Exception as refusal:  # noqa: BLE001 - told to the test
        told[state.__name__] = f"{type(refusal).__name__}: {refusal}"
sys.stdout.write("TEST " + json.dumps(told) + "\n")
sys.stdout.flush()
os._exit(0)
