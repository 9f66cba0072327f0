"""Trains with callbacks that remember, and draws random numbers; the last worker may die or be asked to leave.

Arguments: a folder for what the callbacks write. TEST_DIE_AT, TEST_LEAVE_AT: a step of this process.
"""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import dtj

SCORES = [5.0, 4.0, 6.0, 6.5, 3.0, 7.0, 8.0, 9.0, 10.0, 11.0]
DIE_AT, LEAVE_AT = (int(os.environ.get(name, "0")) for name in ("TEST_DIE_AT", "TEST_LEAVE_AT"))
folder = Path(sys.argv[1])
folder.mkdir(exist_ok=True)

context = dtj.init(seed=1)
tf.random.set_global_generator(tf.random.Generator.from_seed(5))
rng = np.random.default_rng(0)
x = rng.normal(size=(96, 8)).astype("float32")
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(4), keras.layers.Dropout(0.5), keras.layers.Dense(1)])
model.compile(keras.optimizers.SGD(0.05), "mse")


class Scores(keras.callbacks.Callback):
    """Has the loggers after it see a score, which does not depend on the training."""

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        assert logs is not None
        logs["score"] = SCORES[epoch]


class Memory(keras.callbacks.Callback):
    """Remembers what it has seen and drawn; forgets all when a training begins, as several of Keras do."""

    def on_train_begin(self, logs: object = None) -> None:
        self.seen: dict[int, Any] = {}
        self.total = np.zeros(2)
        keras.random.normal((1,))

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        generator = tf.random.get_global_generator()
        drawn = [keras.random.uniform((1,))[0], generator.uniform((1,))[0]] if context.workers == 1 else []
        self.seen[epoch] = (SCORES[epoch], [float(each) for each in drawn], None)
        self.total += [1, epoch]

    def get_state(self) -> dict[str, Any]:
        return {"seen": self.seen, "total": self.total}

    def set_state(self, state: dict[str, Any]) -> None:
        self.seen, self.total = dict(state["seen"]), state["total"]


class Accident(keras.callbacks.Callback):
    steps = 0

    def on_train_batch_end(self, batch: int, logs: object = None) -> None:
        self.steps += 1
        if context.rank == context.workers - 1:
            if self.steps == DIE_AT:
                os.kill(os.getpid(), signal.SIGKILL)
            if self.steps == LEAVE_AT:
                os.kill(os.getpid(), signal.SIGTERM)


memory = Memory()
stopping = keras.callbacks.EarlyStopping("score", patience=3, mode="min", restore_best_weights=True)
plateau = keras.callbacks.ReduceLROnPlateau("score", factor=0.5, patience=2, cooldown=1, mode="min")
best = keras.callbacks.ModelCheckpoint(str(folder / "best.keras"), "score", save_best_only=True, mode="min")
logger = keras.callbacks.CSVLogger(str(folder / "log.csv"))
history = dtj.fit(
    model,
    x,
    x[:, :1],
    epochs=10,
    batch_size=24,
    callbacks=[Scores(), memory, Accident(), stopping, plateau, best, logger],
    verbose=0,
)
told = {
    "epochs": history.epoch,
    "resumed_from": history.resumed_from,
    "rate": float(model.optimizer.learning_rate.numpy()),
    "stopping": [stopping.best, stopping.best_epoch, stopping.stopped_epoch, stopping.wait],
    "seen": sorted(memory.seen.items()),
    "total": [float(each) for each in memory.total],
    "best": best.best if context.is_chief else None,
    "log": (folder / "log.csv").read_text() if context.is_chief else None,
    "weights": [float(value) for w in model.get_weights() for value in np.ravel(w)],
}
sys.stdout.write("TEST " + json.dumps(told) + "\n")
sys.stdout.flush()
os._exit(0)
