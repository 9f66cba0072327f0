"""Trains each kind of loss for five updates by SGD, with `model.fit` or `dtj.fit`, and tells the weights.

Arguments: "keras" or "dtj"; examples of an update; batches that make one; the kinds, all if none is named.
"""

import json
import os
import sys
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import dtj

PLAIN = sys.argv[1] == "keras"
EXAMPLES, BATCHES = int(sys.argv[2]), int(sys.argv[3])
UPDATES = 5
if not PLAIN:
    dtj.init()

rng = np.random.default_rng(0)
rows = EXAMPLES * UPDATES
x = rng.normal(size=(rows, 8)).astype("float32")
y = (x[:, :3].sum(1, keepdims=True) > 0).astype("float32")
weight = rng.uniform(0.1, 2, size=rows).astype("float32")


def mlp(model: type[keras.Model] = keras.Model, *, activity: float = 0, **options: Any) -> keras.Model:
    given = keras.Input((8,))
    regular = keras.regularizers.L2(activity) if activity else None
    hidden = keras.layers.Dense(8, activation="tanh", activity_regularizer=regular)(given)
    made = model(given, keras.layers.Dense(1, activation="sigmoid")(hidden))
    made.compile(keras.optimizers.SGD(0.1), **{"loss": "binary_crossentropy", **options})
    return made


class OwnLoss(keras.Model):
    def compute_loss(self, x: Any = None, y: Any = None, y_pred: Any = None, *_: Any, **__: Any) -> Any:
        return keras.ops.mean(keras.ops.square(y - y_pred)) + 0.01 * keras.ops.mean(keras.ops.square(x))


class AveragedLoss(keras.Model):
    """Takes the mean of a loss of each example by itself."""

    def compute_loss(self, x: Any = None, y: Any = None, y_pred: Any = None, *_: Any, **__: Any) -> Any:
        return keras.ops.mean(reduced("none")(y, y_pred))


class OwnStep(keras.Model):
    """Differentiates whatever its loss is."""

    def train_step(self, data: Any) -> dict[str, Any]:
        x, y = data
        with tf.GradientTape() as tape:
            loss = self.compute_loss(y=y, y_pred=self(x, training=True))
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        return {"loss": keras.ops.mean(loss)}


class LossOfLosses(keras.losses.Loss):
    """Takes the mean of another loss's numbers, one for each example."""

    def call(self, y_true: Any, y_pred: Any) -> Any:
        each = reduced("none")(y_true, y_pred)
        return keras.ops.sum(each) / keras.ops.cast(keras.ops.shape(each)[0], "float32")


class AddsLoss(keras.layers.Layer):
    def call(self, inputs: Any) -> Any:
        self.add_loss(0.1 * keras.ops.mean(keras.ops.square(inputs)))
        return inputs


def regularized() -> keras.Model:
    regular = keras.regularizers.L2(0.01)
    made = keras.Sequential(
        [keras.Input((8,)), keras.layers.Dense(8, kernel_regularizer=regular), keras.layers.Dense(1)]
    )
    made.compile(keras.optimizers.SGD(0.05), "mse")
    return made


def adds_loss() -> keras.Model:
    made = keras.Sequential([keras.Input((8,)), keras.layers.Dense(8), AddsLoss(), keras.layers.Dense(1)])
    made.compile(keras.optimizers.SGD(0.05), "mse")
    return made


def two_outputs(loss: Any = "mae", rate: float = 0.05) -> keras.Model:
    given = keras.Input((8,))
    outputs = {name: keras.layers.Dense(1, name=name)(keras.layers.Dense(4)(given)) for name in "ab"}
    made = keras.Model(given, outputs)
    made.compile(keras.optimizers.SGD(rate), {"a": "mse", "b": loss}, loss_weights={"a": 0.3, "b": 2.0})
    return made


def in_bfloat16() -> keras.Model:
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        return mlp()
    finally:
        keras.config.set_dtype_policy("float32")


def reduced(reduction: str) -> keras.losses.Loss:
    return keras.losses.MeanSquaredError(reduction=reduction)


def scalar(true: Any, predicted: Any) -> Any:
    return keras.ops.mean(keras.ops.square(true - predicted))


KINDS: dict[str, tuple[Callable[[], keras.Model], dict[str, Any]]] = {
    "compute_loss": (lambda: mlp(OwnLoss), {}),
    "add_loss": (adds_loss, {}),
    "regularizers": (regularized, {}),
    "activity regularizer": (lambda: mlp(activity=0.01), {}),
    "per example": (lambda: mlp(loss=keras.losses.mean_squared_error), {}),
    "reduction none": (lambda: mlp(loss=reduced("none")), {}),
    "reduction none of one output": (lambda: two_outputs(reduced("none"), 0.001), {}),
    "reduction none in a train_step": (lambda: mlp(OwnStep, loss=reduced("none")), {}),
    "mean of reduction none": (lambda: mlp(AveragedLoss), {}),
    "loss of losses": (lambda: mlp(loss=LossOfLosses(reduction=None)), {}),
    "sum": (lambda: mlp(loss=reduced("sum")), {}),
    "mean": (mlp, {}),
    "mean by sample weight": (lambda: mlp(loss=reduced("mean_with_sample_weight")), {"sample_weight": weight}),
    "scalar": (lambda: mlp(loss=scalar), {}),
    "sample weights": (mlp, {"sample_weight": weight}),
    "class weights": (mlp, {"class_weight": {0: 1.0, 1: 3.0}}),
    "two outputs": (two_outputs, {}),
    "bfloat16": (in_bfloat16, {}),
}
told: dict[str, list[float]] = {}
for name in sys.argv[4:] or KINDS:
    make, options = KINDS[name]
    keras.utils.set_random_seed(3)
    model = make()
    labels = {"a": y, "b": x[:, :1]} if len(model.outputs) > 1 else y
    if PLAIN:
        model.fit(x, labels, batch_size=EXAMPLES, shuffle=False, verbose=0, **options)
    else:
        size = EXAMPLES // BATCHES
        dtj.fit(model, x, labels, batch_size=size, accumulate=BATCHES, shuffle=False, verbose=0, **options)
    told[name] = [float(value) for held in model.get_weights() for value in np.ravel(held)]
sys.stdout.write("TEST " + json.dumps(told) + "\n")
sys.stdout.flush()
os._exit(0)
