"""Trains a model with dropout and batch normalization; may die, or be asked to leave, at a step of this process."""

import hashlib
import json
import os
import signal
import sys

import keras
import numpy as np

import dtj

DIE_AT, LEAVE_AT = (int(os.environ.get(name, "0")) for name in ("TEST_DIE_AT", "TEST_LEAVE_AT"))
VICTIM = int(os.environ.get("TEST_VICTIM", "0"))
REPLICA_BATCH = int(os.environ.get("TEST_REPLICA_BATCH", "0")) or None
FEATURES = int(os.environ.get("TEST_FEATURES", "8"))

session = dtj.init(deterministic=True, seed=int(os.environ.get("TEST_SEED", "1")))
rng = np.random.default_rng(0)
x = rng.normal(size=(250, FEATURES)).astype("float32")
y = x[:, :3].sum(1, keepdims=True)
if os.environ.get("TEST_NAN"):
    y[17] = np.nan

model = keras.Sequential(
    [
        keras.Input((FEATURES,)),
        keras.layers.Dense(16, activation="relu"),
        keras.layers.Dropout(0.2),
        keras.layers.BatchNormalization(),
        keras.layers.Dense(1),
    ]
)
model.compile(keras.optimizers.Adam(1e-2), "mse", metrics=["mae"])


class Accident(keras.callbacks.Callback):
    steps = 0

    def on_train_batch_end(self, batch: int, logs: object = None) -> None:
        self.steps += 1
        if self.steps == DIE_AT and session.rank == VICTIM:
            os.kill(os.getpid(), signal.SIGKILL)
        if self.steps == LEAVE_AT:
            os.kill(os.getpid(), signal.SIGTERM)


result = dtj.fit(
    model,
    dtj.data.Pipeline(dtj.data.numpy(x, y), map=lambda a, b: (a * 2.0, b)),
    epochs=int(os.environ.get("TEST_EPOCHS", "4")),
    batch_size=None if REPLICA_BATCH else int(os.environ.get("TEST_BATCH", "24")),
    per_replica_batch_size=REPLICA_BATCH,
    callbacks=[Accident()] if DIE_AT or LEAVE_AT else [],
    export=os.environ.get("TEST_EXPORT"),
)
state = [*model.get_weights(), *(v.numpy() for v in model.optimizer.variables)]
digest = hashlib.sha256(b"".join(np.ascontiguousarray(value).tobytes() for value in state)).hexdigest()
weights = [float(value) for w in model.get_weights() for value in np.ravel(w)]
told = {"step": result.step, "resumed_from": result.resumed_from, "digest": digest, "weights": weights}
sys.stdout.write("TEST " + json.dumps(told) + "\n")
sys.stdout.flush()
os._exit(0)
