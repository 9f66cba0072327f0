"""What callbacks hear of dtj.fit, and in a job of one process of Keras' own fit: calls, and what validations found."""

import json
import os
import sys

import keras
import numpy as np
import tensorflow as tf

import dtj

session = dtj.init(seed=1)
x = np.random.default_rng(0).normal(size=(48, 4)).astype("float32")
y = x[:, :1]
HEARD = [name for name in dir(keras.callbacks.Callback) if name.startswith("on_") and "predict" not in name]
OLD = {"on_batch_begin", "on_batch_end"}  # called by their new names


class HookRecorder(keras.callbacks.Callback):
    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []
        self.found: list[dict[str, float]] = []
        self.trained: list[dict[str, float]] = []


def recording(name: str) -> object:
    def record(self: HookRecorder, *given: object, logs: dict[str, float] | None = None) -> None:
        numbers = [value for value in given if isinstance(value, int)]
        logs = next((value for value in given if isinstance(value, dict)), logs)
        self.calls.append(" ".join([name, *map(str, numbers)]))
        if logs and name in {"on_test_batch_end", "on_test_end"}:
            self.found.append({key: float(value) for key, value in sorted(logs.items())})
        if logs and name == "on_train_batch_end":
            self.trained.append({key: float(value) for key, value in sorted(logs.items())})

    return record


for method in set(HEARD) - OLD:
    setattr(HookRecorder, method, recording(method))


def compiled() -> keras.Model:
    keras.utils.set_random_seed(3)
    made = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    made.compile(keras.optimizers.SGD(0.05), "mse", metrics=["mae"])
    return made


class Hasty(HookRecorder):
    """Has enough of a validation after its second batch."""

    def on_test_batch_end(self, batch: int, logs: object = None) -> None:
        self.model.stop_evaluating = batch == 1


class Evaluates(keras.callbacks.Callback):
    """Evaluates something else at an epoch's end, on the same metrics."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[float] = []

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        self.told.append((logs or {})["mae"])
        self.model.evaluate(x, y + 1, verbose=0)


def batches(count: int) -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices((x[:count], y[:count])).batch(16)


ours, quiet, theirs = HookRecorder(), keras.callbacks.LambdaCallback(), HookRecorder()
hasty, hasty_theirs = Hasty(), Hasty()
quiet.found = []
quiet.on_test_end = lambda logs=None: quiet.found.append(logs)
dtj.fit(compiled(), batches(48), validation_data=batches(40), epochs=2, callbacks=[ours])
dtj.fit(compiled(), batches(48), validation_data=batches(40), epochs=2, callbacks=[quiet])
dtj.fit(compiled(), batches(48), validation_data=batches(40), epochs=2, callbacks=[hasty])
if session.workers == 1:
    for listening in (theirs, hasty_theirs):
        compiled().fit(batches(48), validation_data=batches(40), epochs=2, callbacks=[listening], verbose=0)
told = {name: vars(each).get("calls") for name, each in {"ours": ours, "theirs": theirs}.items()}
told["found"] = {"ours": ours.found, "quiet": quiet.found, "theirs": theirs.found}
told["trained"] = {"ours": ours.trained, "theirs": theirs.trained}
told["hasty"] = {"ours": hasty.found, "theirs": hasty_theirs.found}
if session.workers == 1:
    evaluates, evaluates_theirs = Evaluates(), Evaluates()
    dtj.fit(compiled(), batches(48), epochs=2, callbacks=[evaluates])
    compiled().fit(batches(48), epochs=2, callbacks=[evaluates_theirs], verbose=0)
    told["evaluates"] = {"ours": evaluates.told, "theirs": evaluates_theirs.told}
sys.stdout.write("TEST " + json.dumps(told) + "\n")
sys.stdout.flush()
os._exit(0)
