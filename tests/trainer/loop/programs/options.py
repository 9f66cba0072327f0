"""Uses the options of dtj.fit one after the other and tells what came out."""

import json
import os
import sys
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

import dtj_trainer as dtj

session = dtj.init(seed=1)
folder = Path(sys.argv[1])
rng = np.random.default_rng(0)
x = rng.normal(size=(240, 8)).astype("float32")
y = x[:, :3].sum(1, keepdims=True)
told: dict[str, object] = {"replicas": session.replicas}


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
dtj.fit(model, pipeline(), steps=20, global_batch_size=24, export=str(folder / "export"))
tf.distribute.experimental_set_strategy(None)  # as whoever serves it
loaded = tf.saved_model.load(str(folder / "export"))
served = loaded.serve(tf.constant(x[:10]))
with session.strategy.scope():
    told["export_differs"] = float(np.abs(served.numpy() - model(x[:10]).numpy()).max())
tf.distribute.experimental_set_strategy(session.strategy)

weights = folder / "hot.weights.h5"
model.save_weights(weights)
tf.train.Checkpoint(model=model).save(str(folder / "hot" / "ckpt"))
before = dtj.fit(compiled(), pipeline(), steps=1, global_batch_size=24).metrics["loss"]
for name, path in {"file": weights, "directory": folder / "hot"}.items():
    again = dtj.fit(compiled(), pipeline(), steps=1, global_batch_size=24, initial_weights=str(path))
    told[f"hot_{name}"] = again.metrics["loss"] / before
try:
    dtj.fit(compiled(), pipeline(), steps=1, global_batch_size=24, initial_weights=str(folder / "none.weights.h5"))
except Exception as refusal:  # noqa: BLE001 - told to the test
    told["no_weights"] = str(refusal)

for kind in ("bfloat16", "float16"):
    mixed = dtj.fit(compiled, pipeline(), steps=60, global_batch_size=24, mixed_precision=kind)
    told[kind] = {
        "policy": mixed.model.layers[0].dtype_policy.name,
        "optimizer": type(mixed.model.optimizer).__name__,
        "loss": mixed.metrics["loss"],
    }
    keras.config.set_dtype_policy("float32")
try:
    dtj.fit(compiled(), pipeline(), steps=1, global_batch_size=24, mixed_precision="float16")
except Exception as refusal:  # noqa: BLE001 - told to the test
    told["too_late"] = str(refusal)


class Rates(keras.callbacks.Callback):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[float] = []

    def on_train_batch_begin(self, batch: int, logs: object = None) -> None:
        self.found.append(float(self.model.optimizer.learning_rate.numpy()))


rates = Rates()
dtj.fit(
    compiled(keras.optimizers.SGD(0.01)),
    pipeline(),
    epochs=6,
    steps_per_epoch=2,
    per_replica_batch_size=12,
    callbacks=[rates],
)
told["rates"] = [round(rate, 6) for rate in rates.found]
sys.stdout.write("TEST " + json.dumps(told) + "\n")
sys.stdout.flush()
os._exit(0)
