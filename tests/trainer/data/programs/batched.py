"""Trains on batched data of a kind that Keras takes, by dtj.fit or by Keras' own; may be killed at a step."""

import json
import os
import signal
import sys
from types import SimpleNamespace
from typing import Any, cast

import keras
import numpy as np
import tensorflow as tf

import dtj

KIND = os.environ["TEST_KIND"]
PLAIN = bool(os.environ.get("TEST_PLAIN"))
DIE_AT = int(os.environ.get("TEST_DIE_AT", "0"))

rank = 0 if PLAIN else dtj.init(seed=1).rank

keras.utils.set_random_seed(1)
rng = np.random.default_rng(rank if os.environ.get("TEST_RANK_SEEDS") else 0)
x = rng.normal(size=(57, 4)).astype("float32")
y = (x[:, :1] > 0).astype("float32")


class Batches(keras.utils.PyDataset):
    """Six batches, the last of 7."""

    def __len__(self):
        return 6

    def __getitem__(self, number):
        return x[number * 10 : number * 10 + 10], y[number * 10 : number * 10 + 10]


class DataLoader:
    """What torch.utils.data.DataLoader is, as far as it is used."""

    __module__ = "torch.utils.data.dataloader"
    dataset = x

    def __len__(self):
        return 6

    def __iter__(self):
        batches = Batches()
        return (batches[number] for number in range(6))


def endless():
    batches = Batches()
    while True:
        yield from (batches[number] for number in range(6))


def once():
    batches = Batches()
    yield from (batches[number] for number in range(6))


def twice():
    yield from once()
    yield from once()


opened: list[int] = []


def counted():
    """Yield the batches of one pass, and count the passes that are begun."""
    opened.append(1)
    yield from once()


KINDS = {
    "PyDataset": lambda: (Batches(), {}),
    "PyDataset in threads": lambda: (Batches(workers=2), {}),
    "PyDataset in processes": lambda: (Batches(workers=2, use_multiprocessing=True), {}),
    "generator": lambda: (endless(), {"steps_per_epoch": 6}),
    "finite generator": lambda: (once(), {}),
    "generator of 12 batches": lambda: (twice(), {"steps_per_epoch": 5}),
    "DataLoader": lambda: (DataLoader(), {}),
    "Dataset": lambda: (tf.data.Dataset.from_tensor_slices((x, y)).batch(10), {}),
    "Dataset that filters": lambda: (
        tf.data.Dataset.from_tensor_slices((x, y)).filter(lambda *_: True).batch(10),
        {"steps_per_epoch": 4},
    ),
    "Dataset from Python": lambda: (
        tf.data.Dataset.from_generator(once, output_signature=(tf.TensorSpec([None, 4]), tf.TensorSpec([None, 1]))),
        {"steps_per_epoch": 4},
    ),
    "unseeded": lambda: (tf.data.Dataset.from_tensor_slices((x, y)).shuffle(57).batch(10), {}),
    "large": lambda: (
        tf.data.Dataset.range(60)
        .map(lambda number: tf.random.stateless_uniform([1 << 18], [number, 0]))
        .repeat()
        .shuffle(80, seed=1)
        .map(lambda features: (features[:4], features[:1]))
        .batch(10),
        {"steps_per_epoch": 6},
    ),
    "in Python": lambda: (
        tf.data.Dataset.from_generator(
            lambda: (Batches()[number] for number in range(6)),
            output_signature=(tf.TensorSpec([None, 4]), tf.TensorSpec([None, 1])),
        ).apply(tf.data.experimental.assert_cardinality(6)),
        {},
    ),
    "Dataset that is counted": lambda: (
        tf.data.Dataset.from_generator(counted, output_signature=(tf.TensorSpec([None, 4]), tf.TensorSpec([None, 1]))),
        {},
    ),
    "class weights": lambda: (Batches(), {"class_weight": {0: 1.0, 1: 3.0}}),
}


class Accident(keras.callbacks.Callback):
    steps = 0

    def on_train_batch_end(self, batch, logs=None):
        self.steps += 1
        if self.steps == DIE_AT:
            os.kill(os.getpid(), signal.SIGKILL)


model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(1, "sigmoid")])
model.compile(keras.optimizers.SGD(0.5), "binary_crossentropy")
data, settings = cast("tuple[Any, dict[str, Any]]", KINDS[KIND]())
epochs = 1 if KIND == "finite generator" else 3
arguments: dict[str, Any] = {
    "epochs": epochs,
    "shuffle": False,
    "callbacks": [Accident()] if DIE_AT or os.environ.get("TEST_BY_BATCH") else [],
    **settings,
}
if PLAIN and KIND == "DataLoader":
    data = Batches()  # Keras would import torch
if PLAIN:
    history: Any = SimpleNamespace(
        history=model.fit(data, verbose=0, **arguments).history, step=int(model.optimizer.iterations)
    )
else:
    history = dtj.fit(model, data, **arguments)
weights = [float(value) for each in model.get_weights() for value in np.ravel(each)]
told = {
    "weights": weights,
    "losses": [float(each) for each in history.history["loss"]],
    "step": history.step,
    "opened": len(opened),
}
sys.stdout.write("TEST " + json.dumps(told) + "\n")
sys.stdout.flush()
os._exit(0)
