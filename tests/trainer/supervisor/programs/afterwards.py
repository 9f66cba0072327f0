# ruff: noqa: T201 - the test reads what is printed
"""Trains by dtj.fit, and then does something on the chief alone that fails the first time.

Arguments: a folder for what it leaves; how it fails the first time: "raises", "dies" or "hangs", "misses" on another
worker, or "N leaves" where worker N does so by os._exit; seconds that it takes.
"""

import os
import signal
import sys
import time
from pathlib import Path

import keras
import numpy as np

import dtj

folder, failure, seconds = Path(sys.argv[1]), sys.argv[2], float(sys.argv[3])
print("SAY begin", os.getpid(), flush=True)
context = dtj.init(seed=1)
x = np.random.default_rng(0).normal(size=(96, 8)).astype("float32")
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
result = dtj.fit(model, dtj.data.Pipeline(dtj.data.numpy(x, x[:, :1])), steps=8, batch_size=24)
print("SAY fitted", result.step, result.resumed_from, flush=True)
if context.is_chief:
    tried = folder / "tried"
    if not tried.exists():
        tried.touch()
        if failure == "raises":
            raise RuntimeError("the upload failed")
        if failure == "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        if failure == "hangs":
            time.sleep(600)
    time.sleep(seconds)
    (folder / "uploaded").touch()
elif failure == "misses":
    raise ValueError("not on this worker")
print("SAY end", flush=True)
if failure == f"{context.index} leaves":
    os._exit(0)
