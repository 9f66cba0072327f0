"""A Keras 2 model whose table is split over the ps, by a step of its own. TEST_KERAS_2: where tf_keras lies."""

import json
import os
import sys
from typing import Any

import numpy as np
import tensorflow as tf

import dtj

sys.path.append(os.environ["TEST_KERAS_2"])
import tf_keras

dtj.init(seed=1)
ids = np.random.default_rng(0).integers(0, 1000, size=(480, 1)).astype("int64")
held: dict[str, Any] = {}


def state():
    layers = tf_keras.layers
    model = tf_keras.Sequential(
        [layers.Input((1,), dtype="int64"), layers.Embedding(1000, 8), layers.Flatten(), layers.Dense(1)]
    )
    optimizer = tf_keras.optimizers.SGD(0.5)
    optimizer.build(model.trainable_variables)
    held.update(model=model, optimizer=optimizer)
    return held


def step(state, batch):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(state["model"](batch[0], training=True) - batch[1]))
    variables = state["model"].trainable_variables
    state["optimizer"].apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
    return {"loss": loss}


pipeline = dtj.data.Pipeline(dtj.data.numpy(ids, ((ids % 7) / 7.0).astype("float32")))
result = dtj.train(step, state=state, data=pipeline, epochs=20, batch_size=24)
told = {"loss": result.metrics["loss"], "variables": {v.name: v.device for v in held["model"].variables}}
sys.stdout.write("TEST " + json.dumps(told) + "\n")
sys.stdout.flush()
os._exit(0)
