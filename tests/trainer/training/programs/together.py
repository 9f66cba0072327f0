"""Uses options of dtj.fit together, and habits of people who know Keras; tells what came out."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np

import dtj

session = dtj.init(seed=1)
folder = Path(sys.argv[1])
rng = np.random.default_rng(0)
x = rng.normal(size=(240, 8)).astype("float32")
y = x[:, :3].sum(1, keepdims=True)
pipeline = dtj.data.Pipeline(dtj.data.numpy(x, y), shuffle=0)
told: dict[str, object] = {}


def compiled(**settings: Any) -> keras.Model:
    keras.utils.set_random_seed(3)
    made = keras.Sequential(
        [keras.Input((8,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(1, dtype="float32")]
    )
    made.compile(keras.optimizers.SGD(**{"learning_rate": 0.05, **settings}), "mse")
    return made


def loss(model: keras.Model | Callable[[], keras.Model], **options: Any) -> float:
    ended = dtj.fit(model, pipeline, steps=10, batch_size=24, **options)
    keras.config.set_dtype_policy("float32")
    return float(ended.metrics["loss"])


built = compiled()
told["built"] = loss(built, mixed_precision="float16")
told["policies"] = [layer.dtype_policy.name for layer in built.layers]
both_ways = keras.layers.Bidirectional(keras.layers.LSTM(2))
recurrent = keras.Sequential([keras.Input((4, 16)), both_ways, keras.layers.Dense(10)])
recurrent.compile("sgd", "mse")
dtj.fit(recurrent, np.ones((8, 4, 16)), np.ones((8, 10)), mixed_precision="bfloat16", verbose=0)
told["both_ways"] = [layer.compute_dtype for layer in (both_ways.forward_layer, both_ways.backward_layer.cell)]
told["made"] = loss(compiled, mixed_precision="float16")
told["clipped"] = loss(compiled, mixed_precision="float16", clip_norm=0.5)
theirs = compiled(global_clipnorm=0.5, use_ema=True, ema_momentum=0.5)
told["clipped_by_keras"] = loss(theirs)
average = theirs.optimizer._model_variables_moving_average[0]
told["average_differs"] = float(np.abs(theirs.trainable_variables[0].numpy() - average.numpy()).max())


told["single"] = loss(compiled(), callbacks=keras.callbacks.TerminateOnNaN())


class OwnStep(keras.Sequential):
    def train_step(self, data: object) -> object:
        return super().train_step(data)


own_losses = []
for kind in (OwnStep, keras.Sequential):
    keras.utils.set_random_seed(3)
    own = kind([keras.Input((8,)), keras.layers.Dense(1)])
    own.compile("sgd", "mse")
    own_losses.append(loss(own))
told["own_step"] = own_losses


class Rates(keras.callbacks.Callback):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[float] = []

    def on_train_batch_begin(self, batch: int, logs: object = None) -> None:
        self.found.append(float(self.model.optimizer.learning_rate.numpy()))


falling, rates = compiled(learning_rate=0.01), Rates()
halving = keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate / 2 if epoch else 0.02)
dtj.fit(falling, pipeline, epochs=3, steps_per_epoch=1, per_replica_batch_size=12, callbacks=[halving, rates])
told["rates"] = rates.found
falling.save(folder / "falling.keras")
told["loaded"] = type(keras.models.load_model(folder / "falling.keras").optimizer).__name__
sys.stdout.write("TEST " + json.dumps(told) + "\n")
sys.stdout.flush()
os._exit(0)
