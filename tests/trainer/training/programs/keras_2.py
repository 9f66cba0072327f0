"""A model of Keras 2 in dtj.fit, which refuses it, and in dtj.train. Argument: the folder with tf_keras."""

import json
import os
import sys

import numpy as np
import tensorflow as tf

import dtj

sys.path.append(sys.argv[1])
import tf_keras

dtj.init(seed=1)
x = np.random.default_rng(0).normal(size=(240, 8)).astype("float32")
pipeline = dtj.data.Pipeline(dtj.data.numpy(x, x[:, :1]))


def compiled():
    made = tf_keras.Sequential([tf_keras.layers.Input((8,)), tf_keras.layers.Dense(1)])
    made.compile("sgd", "mse")
    return made


def refusal(model):
    try:
        dtj.fit(model, pipeline, steps=1, batch_size=24)
    except Exception as error:  # noqa: BLE001 - told to the test
        return f"{type(error).__name__}: {error}"


def state():
    return {"model": compiled(), "optimizer": tf_keras.optimizers.SGD(0.1)}


def step(held, batch):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(held["model"](batch[0], training=True) - batch[1]))
    variables = held["model"].trainable_variables
    held["optimizer"].apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
    return {"loss": loss}


told = {"model": refusal(compiled()), "function": refusal(compiled)}
trained = dtj.train(step, state=state, data=pipeline, steps=60, batch_size=24)
told["loss"] = trained.metrics["loss"]
sys.stdout.write("TEST " + json.dumps(told) + "\n")
sys.stdout.flush()
os._exit(0)
