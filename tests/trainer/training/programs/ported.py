"""Trains what people bring along: losses that are one number, shapes that nobody knows, elements of one part."""

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
rng = np.random.default_rng(0)
x = rng.normal(size=(240, 8)).astype("float32")
y = x[:, :3].sum(1, keepdims=True)
weight = rng.uniform(size=(240, 1)).astype("float32")
Told = dict[str, Any]


def mlp(kind: type = keras.Sequential, *more: keras.layers.Layer, **settings: Any) -> keras.Model:
    keras.utils.set_random_seed(3)
    dense = keras.layers.Dense(8, activation="tanh", kernel_regularizer=keras.regularizers.L2(0.1))
    made = kind([keras.Input((8,)), dense, *more, keras.layers.Dense(1, dtype="float32")])
    made.compile(keras.optimizers.SGD(0.05), **settings)
    return made


def pipeline(*parts: Any) -> dtj.data.Pipeline:
    return dtj.data.Pipeline(dtj.data.numpy(parts or (x, y)), shuffle=0)


def fitted(model: keras.Model, data: Any = None, **options: Any) -> Told:
    data = pipeline() if data is None else data
    sizes = {"batch_size": 24} if isinstance(data, dtj.data.Pipeline) else {}
    result = dtj.fit(model, data, **{"epochs": 1, "steps_per_epoch": 5, **sizes, **options})
    weights = [float(value) for w in model.get_weights() for value in np.ravel(w)]
    return {"weights": weights, "metrics": dict(result.metrics)}


def mean_error(wanted: Any, found: Any) -> Any:
    return tf.reduce_mean(tf.square(wanted - found))


class Mean(keras.Sequential):
    def compute_loss(self, x: Any = None, y: Any = None, y_pred: Any = None, sample_weight: Any = None) -> Any:
        return mean_error(y, y_pred) + keras.ops.sum(self.losses)


class Share(Mean):
    """Takes the share of a replica by itself, as TensorFlow tells people to."""

    def compute_loss(self, x: Any = None, y: Any = None, y_pred: Any = None, sample_weight: Any = None) -> Any:
        each = tf.square(y - y_pred)
        regular = tf.nn.scale_regularization_loss(tf.add_n(self.losses))
        replicas = tf.distribute.get_strategy().num_replicas_in_sync
        return tf.nn.compute_average_loss(each) + regular + mean_error(y, y_pred) / replicas


class More(keras.Sequential):
    """Adds to Keras' own loss, and has a metric of its own."""

    def __init__(self, layers: list[Any]) -> None:
        super().__init__(layers)
        self.far = keras.metrics.Mean("far")

    def compute_loss(self, x: Any = None, y: Any = None, y_pred: Any = None, sample_weight: Any = None) -> Any:
        far = keras.ops.mean(keras.ops.abs(y - y_pred))
        self.far.update_state(far)
        return super().compute_loss(x, y, y_pred, sample_weight) + far


class Centred(keras.layers.Layer):
    def call(self, given: Any) -> Any:
        self.add_loss(0.1 * keras.ops.mean(keras.ops.square(given)))
        return given


class Error(keras.metrics.Sum):
    """Its result is the variable itself."""

    def update_state(self, wanted: Any, found: Any, sample_weight: Any = None) -> None:
        super().update_state(keras.ops.abs(wanted - found))

    def result(self) -> Any:
        return self.total


def scalar_loss() -> Told:
    metrics = ["mae", keras.losses.MeanSquaredError(), Error()]
    return fitted(mlp(loss=mean_error, metrics=metrics), validation_data=pipeline(x[:48], y[:48]))


def weighted() -> Told:
    return fitted(mlp(keras.Sequential, Centred(), loss="mse"), pipeline(x, y, weight), accumulate=2, clip_norm=0.5)


def own_loss() -> Told:
    return fitted(mlp(Mean), validation_data=pipeline(x[:48], y[:48]))


def half_loss() -> Told:
    return fitted(mlp(Mean), mixed_precision="float16")


def shared_loss() -> Told:
    return fitted(mlp(Share), accumulate=2)


def more_loss() -> Told:
    return fitted(mlp(More, loss="mse"))


def sums() -> Told:
    return fitted(mlp(loss=keras.losses.MeanSquaredError(reduction="sum")), steps_per_epoch=2, clip_norm=0.1)


def outputs() -> Told:
    keras.utils.set_random_seed(3)
    given = keras.Input((8,))
    model = keras.Model(given, {name: keras.layers.Dense(1, name=name)(given) for name in ("a", "b")})
    model.compile(keras.optimizers.SGD(0.01), {"a": "mse", "b": mean_error})
    return fitted(model, pipeline(x, {"a": y, "b": y}))


def padded() -> Told:
    ids = rng.integers(1, 50, size=(240, 6)).astype("int32")
    data = tf.data.Dataset.from_tensor_slices((ids, y)).map(lambda a, b: (a[: 3 + a[0] % 3], b))
    keras.utils.set_random_seed(3)
    layers = [keras.layers.Embedding(50, 4), keras.layers.GlobalAveragePooling1D(), keras.layers.Dense(1)]
    model = keras.Sequential([keras.Input((None,), dtype="int32"), *layers])
    model.compile("sgd", "mse")
    return fitted(model, data.padded_batch(24, drop_remainder=True))


def one_part() -> Told:
    def step(_: Any, batch: Any) -> dict[str, Any]:
        (part,) = batch
        return {"loss": tf.reduce_mean(tf.square(part))}

    data = tf.data.Dataset.from_tensor_slices((x,)).batch(24)
    return {"weights": [], "metrics": dict(dtj.train(step, state={"w": tf.Variable(0.0)}, data=data, steps=2).metrics)}


def last_example() -> Told:
    """A validation whose last batch is one example, so that one replica has none of it; all are alike."""
    alike = pipeline(*(np.repeat(part[:1], 25, 0) for part in (x, y)))
    return fitted(mlp(loss=mean_error, metrics=[mean_error]), validation_data=alike)


CASES: tuple[Callable[[], Told], ...] = (
    scalar_loss,
    weighted,
    own_loss,
    half_loss,
    shared_loss,
    more_loss,
    sums,
    outputs,
    last_example,
    padded,
    one_part,
)

told: dict[str, Any] = {}
for case in CASES:
    if case.__name__ not in sys.argv[1:]:
        continue
    try:
        told[case.__name__] = case()
    except Exception as error:  # noqa: BLE001 - told to the test
        told[case.__name__] = f"{type(error).__name__}: {error}"
sys.stdout.write("TEST " + json.dumps(told) + "\n")
sys.stdout.flush()
os._exit(0)
