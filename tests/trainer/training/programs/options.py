"""Uses the options of dtj.fit one after the other and tells what came out."""

import json
import multiprocessing
import os
import sys
import time
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import dtj
from dtj_trainer.checkpoint.checkpointer import Checkpointer
from dtj_trainer.checkpoint.owner_file import OwnerFile
from dtj_trainer.data.adapters.adapter import get_validation_adapter
from dtj_trainer.data.adapters.given_data import GivenData
from dtj_trainer.data.sharding import BatchSize
from dtj_trainer.storage.open import open_folder as local
from dtj_trainer.training import loop

session = dtj.init(seed=1)
folder = Path(sys.argv[1])
rng = np.random.default_rng(0)
x = rng.normal(size=(240, 8)).astype("float32")
y = x[:, :3].sum(1, keepdims=True)
told: dict[str, object] = {"replicas": session.replicas}

forked = multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,), daemon=True)
forked.start()
forked.terminate()
forked.join(20)
told["forked"] = forked.exitcode


def compiled(optimizer: object = None) -> keras.Model:
    keras.utils.set_random_seed(3)
    made = keras.Sequential(
        [keras.Input((8,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(1, dtype="float32")]
    )
    made.compile(optimizer or keras.optimizers.Adam(0.01), "mse")
    return made


def pipeline() -> dtj.data.Pipeline:
    return dtj.data.Pipeline(dtj.data.numpy(x, y))


model = compiled()
dtj.fit(model, pipeline(), steps=20, batch_size=24, export=folder / "export")
tf.distribute.experimental_set_strategy(None)  # as whoever serves it
loaded = tf.saved_model.load(str(folder / "export"))
served = loaded.serve(tf.constant(x[:10]))
with session.strategy.scope():
    told["export_differs"] = float(np.abs(served.numpy() - model(x[:10]).numpy()).max())
tf.distribute.experimental_set_strategy(session.strategy)

weights = folder / "hot.weights.h5"
model.save_weights(weights)
saved = tf.train.Checkpoint(model=model).save(str(folder / "hot" / "ckpt"))
jobs = Checkpointer(str(folder / "job"), 2, OwnerFile(local(str(folder / "job")), "u", 1))
jobs.claim()
for step in (20, 40):
    jobs.save(step, {"model": model, "optimizer": model.optimizer}, {}, lambda: None)
jobs.wait_until_finished()
before = dtj.fit(compiled(), pipeline(), steps=1, batch_size=24).metrics["loss"]
hot = {"file": weights, "directory": folder / "hot", "prefix": saved, "job": folder / "job"}
for name, path in {**hot, "job_prefix": folder / "job" / "ckpt-40"}.items():
    other = keras.optimizers.SGD(0.01, momentum=0.9)  # whose state no checkpoint has
    again = dtj.fit(compiled(other), pipeline(), steps=1, batch_size=24, initial_weights=path)
    told[f"hot_{name}"] = again.metrics["loss"] / before
    same = compiled(keras.optimizers.Adam(0.003))  # of the class whose state and learning rate each of them has
    dtj.fit(same, pipeline(), steps=1, batch_size=24, initial_weights=path)
    told[f"rate_and_steps_{name}"] = [
        float(same.optimizer.learning_rate.numpy()),
        int(same.optimizer.iterations.numpy()),
    ]
wider = keras.Sequential([keras.Input((8,)), keras.layers.Dense(17), keras.layers.Dense(1)])
wider.compile("sgd", "mse")
deeper = keras.Sequential([*model.layers, keras.layers.Dense(1)])
deeper.compile("sgd", "mse")
(folder / "short").mkdir()
tf.train.Checkpoint(model=model).write(str(folder / "short" / "ckpt"))
os.truncate(folder / "short" / "ckpt.data-00000-of-00001", 40)
short = {"short": (compiled(), folder / "short" / "ckpt")}
cold = {**short, "no_weights": (compiled(), folder / "none.weights.h5"), "wider": (wider, folder / "job")}
for name, (other, path) in {**cold, "deeper": (deeper, folder / "job" / "ckpt-40")}.items():
    try:
        dtj.fit(other, pipeline(), steps=1, batch_size=24, initial_weights=path)
    except Exception as refusal:  # noqa: BLE001 - told to the test
        told[name] = str(refusal)

for kind in ("bfloat16", "float16"):
    mixed = dtj.fit(compiled, pipeline(), steps=60, batch_size=24, mixed_precision=kind)
    told[kind] = {
        "policy": mixed.model.layers[0].dtype_policy.name,
        "optimizer": type(mixed.model.optimizer).__name__,
        "loss": mixed.metrics["loss"],
    }
    keras.config.set_dtype_policy("float32")
traced: list[object] = []
try:
    dtj.train(lambda *_: traced.append(1), state={}, data=pipeline(), validation_data=pipeline(), epochs=1)
except Exception as refusal:  # noqa: BLE001 - told to the test
    told["no_validation_step"] = [str(refusal), len(traced)]
try:
    dtj.train(lambda *_: {"loss": tf.zeros([3])}, state={}, data=pipeline(), steps=1, batch_size=24)
except Exception as refusal:  # noqa: BLE001 - told to the test
    told["vector"] = str(refusal)


class Rates(keras.callbacks.Callback):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[float] = []

    def on_train_batch_begin(self, batch: int, logs: object = None) -> None:
        self.found.append(float(self.model.optimizer.learning_rate.numpy()))


lengths: dict[str, dict[str, Any]] = {
    "rates": {"epochs": 6, "steps_per_epoch": 2},
    "rates_of_steps": {"steps": 12, "steps_per_epoch": 2},
}
for name, length in {**lengths, "rates_of_one_epoch": {}, "rates_by_steps": {"steps": 2}}.items():
    rates = Rates()
    plain = compiled(keras.optimizers.SGD(0.01))
    dtj.fit(plain, pipeline(), per_replica_batch_size=12, callbacks=[rates], **length)
    told[name] = [round(rate, 6) for rate in rates.found]


class StopsAt(keras.callbacks.Callback):
    """Stops in the middle of an epoch."""

    def on_train_batch_end(self, batch: int, logs: object = None) -> None:
        self.model.stop_training = batch == 2


seen: list[int] = []
listening = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: seen.append(batch))
saving = keras.callbacks.ModelCheckpoint(folder / "at-{batch}.weights.h5", save_freq=2, save_weights_only=True)
told["stopped"] = dtj.fit(compiled(), pipeline(), epochs=3, batch_size=24, callbacks=[StopsAt()]).step
dtj.fit(compiled(), pipeline(), steps=4, batch_size=24, callbacks=[listening])
dtj.fit(compiled(), pipeline(), steps=4, batch_size=24, callbacks=[saving])
told["seen"], told["files"] = seen, sorted(path.name for path in folder.glob("at-*"))


def tuned(**chosen: bool) -> bool | None:
    """Whether a validation's batches have TensorFlow's tuner, where their Dataset chose so."""
    options = tf.data.Options()
    for name, choice in chosen.items():
        setattr(options.autotune, name, choice)
    data = tf.data.Dataset.range(64).batch(8, drop_remainder=True).with_options(options)
    found = get_validation_adapter(GivenData(data), session.sharding, BatchSize(None, None)).evaluation_dataset()
    enabled: bool | None = found.options().autotune.enabled
    return enabled


told["tuned"] = [tuned(), tuned(enabled=True), tuned(enabled=False)]


def forever() -> object:
    while True:
        yield x[:24], y[:24]


loop.REPORT_SECONDS = 0.0  # a report after each call
kinds = (tf.TensorSpec([None, 8]), tf.TensorSpec([None, 1]))
endless = tf.data.Dataset.from_generator(forever, output_signature=kinds)
ended = dtj.fit(compiled(keras.optimizers.SGD(0.05)), endless, steps=300)
told["endless"] = ended.metrics["loss"]
again = tf.data.Dataset.from_tensor_slices((x, y)).repeat(2).batch(24).filter(lambda *_: True)  # of unknown length
ends: dict[str, list[int]] = {"longer": [], "shorter": []}
for name, (data, steps) in {"longer": (endless, 5), "shorter": (again, 25)}.items():
    hears = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs, told=ends[name]: told.append(epoch))
    ends[name].append(dtj.fit(compiled(), data, epochs=2, steps=steps, callbacks=[hears]).step)
told["ends"] = ends
once = dtj.data.Pipeline(dtj.data.numpy(x, y), repeat=False)
uneven = tf.data.Dataset.from_tensor_slices((x, y)).batch(33)
single = tf.data.Dataset.from_tensor_slices((x, y[:, 0]))
odd = tf.data.Dataset.from_tensor_slices((x, y)).take(83).batch(24)  # 11 examples are left
tried: dict[str, tuple[object, dict[str, Any]]] = {
    "uneven": (uneven, {}),
    "odd": (odd, {}),
    "too_short": (once, {"batch_size": 24}),
    "single": (single, {}),
    "sized": (odd, {"per_replica_batch_size": 12}),
    "linear": (odd, {"batch_size": 24, "base_batch_size": 12, "learning_rate_scaling": "linear"}),
}
for name, (data, sizes) in tried.items():
    try:
        told[name] = dtj.fit(compiled(), data, epochs=2, **sizes).step
    except Exception as refusal:  # noqa: BLE001 - told to the test
        told[name] = f"{type(refusal).__name__}: {refusal}"
sys.stdout.write("TEST " + json.dumps(told) + "\n")
sys.stdout.flush()
os._exit(0)
