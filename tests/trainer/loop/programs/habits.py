"""What people who know Keras give to dtj.fit, and what it says; in a process of one device."""

import json
import os
import sys
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import dtj_trainer as dtj

dtj.init(seed=1)
x = np.random.default_rng(0).normal(size=(96, 8)).astype("float32")
y = (x[:, :1] > 0).astype("float32")
batches = tf.data.Dataset.from_tensor_slices((x, y)).batch(24)
steps: list[int] = []


class OwnTest(keras.Sequential):
    def test_step(self, data: object) -> object:
        return {"loss": tf.constant(123.0)}


def fit(kind: type = keras.Sequential, **options: Any) -> int:
    keras.utils.set_random_seed(3)
    made = kind([keras.Input((8,)), keras.layers.Dense(1, activation="sigmoid")])
    made.compile("sgd", "binary_crossentropy")
    counting = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: steps.append(batch))
    return dtj.fit(made, **{"data": batches, "callbacks": [counting], **options}).step


TRIED: dict[str, Callable[[], object]] = {
    "arrays": lambda: fit(data=(x, y), steps=2),
    "validation_arrays": lambda: fit(validation=(x, y)),
    "endless": lambda: fit(validation=batches.repeat()),
    "endless_function": lambda: fit(validation=lambda context: batches.repeat()),
    "own_test": lambda: fit(OwnTest, validation=batches),
    "tensorboard": lambda: fit(callbacks=[keras.callbacks.TensorBoard()]),
    "no_callbacks": lambda: fit(callbacks=None),
    "no_validation": lambda: fit(OwnTest, callbacks=()),
}
told: dict[str, object] = {}
for name, attempt in TRIED.items():
    try:
        told[name] = attempt()
    except Exception as refusal:  # noqa: BLE001 - told to the test
        told[name] = f"{type(refusal).__name__}: {refusal}"
sys.stdout.write("TEST " + json.dumps({**told, "steps": steps}) + "\n")
sys.stdout.flush()
os._exit(0)
