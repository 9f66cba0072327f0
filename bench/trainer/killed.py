"""The program of bench.trainer.kills: a model with dropout and batch normalization, its data shuffled.

Arguments: steps; a file, and steps are slow while it exists. Prints the final weights, and a digest of these and of
the optimizer's state.
"""

import hashlib
import json
import sys
import time
from pathlib import Path

import keras
import numpy as np

import dtj

EPOCH = 100
"""Steps."""
BATCH = 24
SLOW_SECONDS = 0.04


class Slowly(keras.callbacks.Callback):
    def on_train_batch_end(self, batch: int, logs: object = None) -> None:
        del batch, logs
        if Path(sys.argv[2]).exists():
            time.sleep(SLOW_SECONDS)


dtj.init(deterministic=True, seed=1)
x = np.random.default_rng(0).normal(size=(EPOCH * BATCH, 8)).astype("float32")
model = keras.Sequential(
    [
        keras.Input((8,)),
        keras.layers.Dense(16, activation="relu"),
        keras.layers.Dropout(0.2),
        keras.layers.BatchNormalization(),
        keras.layers.Dense(1),
    ]
)
model.compile(keras.optimizers.Adam(1e-3), "mse")
result = dtj.fit(
    model,
    dtj.data.Pipeline(dtj.data.numpy(x, x[:, :3].sum(1, keepdims=True)), shuffle=1000),
    epochs=int(sys.argv[1]) // EPOCH,
    batch_size=BATCH,
    callbacks=[Slowly()],
)
state = [*model.get_weights(), *(v.numpy() for v in model.optimizer.variables)]
told = {
    "step": result.step,
    "digest": hashlib.sha256(b"".join(np.ascontiguousarray(each).tobytes() for each in state)).hexdigest(),
    "weights": [float(value) for each in model.get_weights() for value in each.ravel()],
}
sys.stdout.write(f"BENCH {json.dumps(told)}\n")
sys.stdout.flush()
