"""What people who know Keras give to dtj.fit, and what it says; in a process of one device."""

import json
import os
import sys
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import dtj

dtj.init(seed=1)
x = np.random.default_rng(0).normal(size=(96, 8)).astype("float32")
y = (x[:, :1] > 0).astype("float32")
batches = tf.data.Dataset.from_tensor_slices((x, y)).batch(24)
classes = tf.data.Dataset.from_tensor_slices((x, keras.utils.to_categorical((x[:, 0] > 0).astype(int), 2))).batch(24)
steps: list[int] = []


class OwnTest(keras.Sequential):
    def test_step(self, data: object) -> object:
        return {"loss": tf.constant(123.0)}


def fit(kind: type = keras.Sequential, **options: Any) -> int:
    keras.utils.set_random_seed(3)
    made = kind([keras.Input((8,)), keras.layers.Dense(1, activation="sigmoid")])
    made.compile("sgd", "binary_crossentropy")
    counting = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: steps.append(batch))
    return dtj.fit(made, **{"x": batches, "callbacks": [counting], **options}).step


class Several(keras.metrics.MeanAbsoluteError):
    def result(self) -> dict[str, object]:
        return {"mean": self.total / self.count, "of": {"count": self.count}}


def told_of(metric: type[keras.metrics.Metric]) -> dict[str, object]:
    """What callbacks hear of a metric here and in Keras' own fit, and what the job tells of it."""
    heard: list[dict[str, object]] = []

    def hear(epoch: int, logs: dict[str, Any]) -> None:
        heard.append({name: np.asarray(value).tolist() for name, value in logs.items()})

    def compiled() -> keras.Model:
        keras.utils.set_random_seed(3)
        made = keras.Sequential([keras.Input((8,)), keras.layers.Dense(2, activation="softmax")])
        made.compile("sgd", "categorical_crossentropy", metrics=[metric()])
        return made

    hearing = [keras.callbacks.LambdaCallback(on_epoch_end=hear)]
    result = dtj.fit(compiled(), classes, validation_data=classes, epochs=1, callbacks=hearing)
    compiled().fit(classes, validation_data=classes, epochs=1, callbacks=hearing, verbose=0)
    return {"ours": heard[0], "theirs": heard[1], "result": dict(result.metrics)}


TRIED: dict[str, Callable[[], object]] = {
    "nothing": lambda: fit(x=None),
    "iterator": lambda: fit(x=iter([(x, y)])),
    "target_twice": lambda: fit(y=y),
    "weights_twice": lambda: fit(sample_weight=y),
    "lengths": lambda: fit(x=x, y=y[:5]),
    "both_weights": lambda: fit(x=x, y=y, sample_weight=y[:, 0], class_weight={1: 2.0}),
    "split_of_batches": lambda: fit(validation_split=0.5),
    "split_too_small": lambda: fit(x=x, y=y, validation_split=0.999),
    "both_sizes": lambda: fit(x=x, y=y, batch_size=8, per_replica_batch_size=8),
    "endless": lambda: fit(validation_data=batches.repeat()),
    "endless_function": lambda: fit(validation_data=lambda context: batches.repeat()),
    "empty": lambda: fit(validation_data=batches.take(0)),
    "filtered": lambda: fit(validation_data=batches.filter(lambda *_: False), callbacks=()),
    "filtered_batches": lambda: fit(validation_data=batches.map(lambda a, b: (a[:0], b[:0])), callbacks=()),
    "own_test": lambda: fit(OwnTest, validation_data=batches, callbacks=()),
    "tensorboard": lambda: fit(callbacks=[keras.callbacks.TensorBoard()]),
    "no_callbacks": lambda: fit(callbacks=None),
    "each_class": lambda: told_of(keras.metrics.F1Score),
    "several": lambda: told_of(Several),
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
