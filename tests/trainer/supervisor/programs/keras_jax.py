# ruff: noqa: T201 - the test reads what is printed
"""A Keras program on JAX with checkpoints of its own: argument 1, a directory that all processes see.

Knows nothing of dtj. Each process reads the weights, which is a collective; the first one writes them.
"""

import os
import sys
import time
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

keras.distribution.initialize()

import jax  # noqa: E402 - what initialize has set up

print("SAY begin", os.getpid(), keras.backend.backend(), jax.process_index(), jax.process_count(), flush=True)
keras.distribution.set_distribution(keras.distribution.DataParallel())
keras.utils.set_random_seed(1)
x = np.random.default_rng(0).normal(size=(64, 8)).astype("float32")
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(1)])
model.compile(keras.optimizers.SGD(0.01), "mse")
data = tf.data.Dataset.from_tensor_slices((x, x[:, :1])).batch(16).repeat()

saved = Path(sys.argv[1]) / "weights.npz"
begun = 0
kernel = np.zeros(0)
if saved.exists():
    with np.load(saved) as found:
        begun = int(found["epoch"])
        model.set_weights([found["kernel"], found["bias"]])
    print("SAY resumed", begun, flush=True)
for epoch in range(begun + 1, 9):
    model.fit(data, epochs=1, steps_per_epoch=4, verbose=0)
    kernel, bias = model.get_weights()
    if jax.process_index() == 0:
        np.savez(saved.with_suffix(".new.npz"), epoch=epoch, kernel=kernel, bias=bias)
        saved.with_suffix(".new.npz").rename(saved)
    print("SAY epoch", epoch, flush=True)
    time.sleep(0.5)
print("SAY weights", f"{np.linalg.norm(kernel):.6f}", flush=True)
