"""Trains a head twice, or then the whole model, and a variable by a step of its own; may die in any training.

TEST_NAMES has the names, of which "-" is none. TEST_DIE_AT is `<training>:<step>`.
"""

import hashlib
import json
import os
import random
import signal
import sys

import keras
import numpy as np
import tensorflow as tf

import dtj

NAMES = [None if name == "-" else name for name in os.environ.get("TEST_NAMES", "-,-,own").split(",")]
TRAINING, STEP = (int(part) for part in os.environ.get("TEST_DIE_AT", "0:0").split(":"))
VICTIM = int(os.environ.get("TEST_VICTIM", "0"))

context = dtj.init(deterministic=True, seed=3)
rng = np.random.default_rng(0)
x = rng.normal(size=(96, 8)).astype("float32")
y = x[:, :3].sum(1, keepdims=True)
data = dtj.data.Pipeline(dtj.data.numpy(x, y))
calls: list[str] = []


class Watch(keras.callbacks.Callback):
    """Notes its calls, and may kill this process."""

    def __init__(self, training: int) -> None:
        super().__init__()
        self.training, self.steps = training, 0

    def on_train_begin(self, logs: object = None) -> None:
        calls.append(f"begin {self.training}")

    def on_train_batch_end(self, batch: int, logs: object = None) -> None:
        self.steps += 1
        if (self.training, self.steps, context.rank) == (TRAINING, STEP, VICTIM):
            os.kill(os.getpid(), signal.SIGKILL)

    def on_train_end(self, logs: object = None) -> None:
        calls.append(f"end {self.training}")


def told() -> dict[str, object]:
    state = [*model.get_weights(), *(v.numpy() for v in model.optimizer.variables), weight.numpy()]
    return {
        "steps": [each.step for each in results],
        "resumed_from": [each.resumed_from for each in results],
        "losses": [each.metrics["loss"] for each in results],
        "iterations": int(model.optimizer.iterations.numpy()),
        "random": [drawn, random.random(), float(np.random.rand())],  # noqa: NPY002 - what programs use
        "digest": hashlib.sha256(b"".join(np.ascontiguousarray(value).tobytes() for value in state)).hexdigest(),
        "calls": calls,
    }


base = keras.Sequential([keras.Input((8,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dropout(0.2)])
base.trainable = False
model = keras.Sequential([base, keras.layers.Dense(1)])
model.compile(keras.optimizers.Adam(1e-2), "mse")
weight = tf.Variable([[0.5]] * 8)


def train_step(state: dict[str, tf.Variable], batch: tuple[tf.Tensor, tf.Tensor]) -> dict[str, tf.Tensor]:
    features, labels = batch
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((features @ state["weight"] - labels) ** 2)
    state["weight"].assign_sub(0.05 * dtj.all_reduce(tape.gradient(loss, state["weight"])))
    return {"loss": loss}


results = [dtj.fit(model, data, epochs=3, callbacks=[Watch(1)], name=NAMES[0], batch_size=24)]
drawn = random.random()
if os.environ.get("TEST_ASKED_TO_LEAVE"):
    os.kill(os.getpid(), signal.SIGTERM)
if os.environ.get("TEST_RECOMPILE"):
    base.trainable = True
    model.compile(keras.optimizers.Adam(1e-3), "mse")
if len(NAMES) > 1:
    results.append(dtj.fit(model, data, epochs=3, callbacks=[Watch(2)], name=NAMES[1], batch_size=24))
if len(NAMES) > 2:
    own = dtj.train(
        train_step,
        state={"weight": weight},
        data=data,
        epochs=2,
        callbacks=[Watch(3)],
        name=NAMES[2],
        batch_size=24,
    )
    results.append(own)
sys.stdout.write("TEST " + json.dumps(told()) + "\n")
sys.stdout.flush()
os._exit(0)
