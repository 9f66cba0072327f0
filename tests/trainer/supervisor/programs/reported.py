# ruff: noqa: T201 - the test reads what is printed
"""Trains two epochs and says what its result is, what /status says, and what the event files say, before it ends.

Arguments: the supervisor's port, the log directory.
"""

import json
import sys
import time
import urllib.request
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

import dtj

dtj.init(seed=1)
x = np.random.default_rng(0).normal(size=(96, 4)).astype("float32")
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
model.compile(keras.optimizers.SGD(0.05), "mse", metrics=["mae"])
pairs = dtj.data.numpy(x, x[:, :1])
result = dtj.fit(model, dtj.data.Pipeline(pairs), validation_data=dtj.data.Pipeline(pairs), epochs=2, batch_size=24)
status: dict[str, object] = {}
deadline = time.monotonic() + 10
while status.get("phase") != "done" and time.monotonic() < deadline:
    with urllib.request.urlopen(f"http://127.0.0.1:{sys.argv[1]}/status", timeout=5) as answer:
        status = json.load(answer)
    time.sleep(0.02)
events = {
    value.tag.removeprefix("epoch/"): float(tf.make_ndarray(value.tensor))
    for file in sorted(Path(sys.argv[2]).glob("*tfevents*"))
    for event in tf.compat.v1.train.summary_iterator(str(file))
    for value in event.summary.value
    if value.tag.startswith("epoch/") and event.step == result.step
}
print("SAY", json.dumps({"result": dict(result.metrics), "status": status["metrics"], "events": events}), flush=True)
