"""Trains with callbacks of Keras' that change what is trained; may be asked to leave after a step of this process."""

import json
import os
import sys

import keras
import numpy as np

import dtj

ASKED_AT = int(os.environ.get("TEST_ASKED_AT", "0"))

session = dtj.init(deterministic=True, seed=1)
x = np.random.default_rng(0).normal(size=(240, 8)).astype("float32")
y = x[:, :3].sum(1, keepdims=True)
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(1)])
model.compile(keras.optimizers.SGD(0.05, use_ema=True, ema_momentum=0.9), "mse")
rates: list[float] = []
steps: list[int] = []


class Listener(keras.callbacks.Callback):
    def on_train_batch_end(self, batch: int, logs: object = None) -> None:
        rates.append(float(model.optimizer.learning_rate.numpy()))
        steps.append(batch)
        if len(steps) == ASKED_AT:
            session.commands.preempted.set()


callbacks = [
    keras.callbacks.LearningRateScheduler(lambda _, rate: rate * 0.9),
    keras.callbacks.SwapEMAWeights(swap_on_epoch=True),
    keras.callbacks.BackupAndRestore(sys.argv[1]),
    Listener(),
]
result = dtj.fit(model, dtj.data.Pipeline(dtj.data.numpy(x, y)), epochs=4, batch_size=24, callbacks=callbacks)
weights = [float(value) for w in model.get_weights() for value in np.ravel(w)]
told = {"weights": weights, "rate": rates[-1], "loss": result.metrics["loss"]}
sys.stdout.write("TEST " + json.dumps(told) + "\n")
sys.stdout.flush()
os._exit(0)
