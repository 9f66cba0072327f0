"""Trains a small model under whatever strategy the job has, slowly enough to be disturbed."""

import json
import os
import sys
import time

import keras
import numpy as np

import dtj

if "TEST_OP_FIRST" in os.environ:
    keras.ops.zeros(())
session = dtj.init(seed=1)
rng = np.random.default_rng(0)
x = rng.normal(size=(480, 8)).astype("float32")
y = (x[:, :3].sum(1, keepdims=True) > 0).astype("float32")
norm = []
if "TEST_NORM" in os.environ:
    norm = [keras.layers.Rescaling(3.0, offset=1.0), keras.layers.BatchNormalization(momentum=0.9)]
model = keras.Sequential(
    [
        keras.Input((8,)),
        *norm,
        keras.layers.Dense(16, activation="relu"),
        *([keras.layers.Dropout(float(os.environ["TEST_DROPOUT"]))] if "TEST_DROPOUT" in os.environ else []),
        keras.layers.Dense(1, activation="sigmoid"),
    ]
)
model.compile(
    keras.optimizers.Adam(0.01, use_ema="TEST_AVERAGE" in os.environ),
    "binary_crossentropy",
    metrics=["accuracy", keras.metrics.TruePositives(name="hits")],
)


class Told(keras.callbacks.Callback):
    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        sys.stdout.write("SAY " + json.dumps({"epoch": epoch, "pid": os.getpid(), **(logs or {})}) + "\n")
        sys.stdout.flush()
        time.sleep(float(os.environ.get("TEST_PAUSE", "0")))


result = dtj.fit(
    model,
    dtj.data.Pipeline(dtj.data.numpy(x, y)),
    validation_data=dtj.data.Pipeline(dtj.data.numpy(x[:101], y[:101])),
    epochs=int(os.environ.get("TEST_EPOCHS", "6")),
    batch_size=24,
    callbacks=[Told()],
    export=os.environ.get("TEST_EXPORT"),
)
said = model(x[:101], training=False).numpy()
hits = int(((said > 0.5) & (y[:101] > 0.5)).sum())
told = {
    "step": result.step,
    "resumed_from": result.resumed_from,
    "strategy": result.strategy,
    "metrics": dict(result.metrics),
    "iterations": int(model.optimizer.iterations.numpy()),
    "hits": hits,
    "positives": int(y.sum()),
    "statistics": [float(np.mean(v.numpy())) for layer in norm for v in layer.non_trainable_variables],
    "device": getattr(model.variables[0].value, "device", ""),
    "weights": [float(value) for w in model.get_weights() for value in np.ravel(w)],
}
sys.stdout.write("SAY " + json.dumps(told) + "\n" + "TEST " + json.dumps(told) + "\n")
