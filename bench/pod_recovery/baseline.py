"""The manually written baseline: a training with a supervisor of a few lines, without this project.

The model is the example's. Runs in a bare pod: TensorFlow is imported once, a fork of that process trains, and another
fork after a crash. It serves /status as `dtj-run` does, so that both are measured alike. Environment: TF_CONFIG, and
BENCH_CHECKPOINTS, a folder.
"""

import http.server
import json
import mmap
import os
import signal
import socket
import struct
import sys
import tempfile
import threading
import time
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from examples.digits import GLOBAL_BATCH, build_model

EVERY_STEPS = 50
STATUS_PORT = 9401
STEP = struct.Struct("qd")
"""The step, and the time at which it was made."""
progress = mmap.mmap(-1, STEP.size)  # shared with forks
now = {"restarts": -1, "child": 0}


def train() -> None:
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    digits = np.load("examples/digits.npz")
    images = tf.data.Dataset.from_tensor_slices((digits["x_train"][..., None], digits["y_train"]))
    batches = iter(strategy.experimental_distribute_dataset(images.shuffle(2000).repeat().batch(GLOBAL_BATCH)))
    with strategy.scope():
        model = build_model(dropout=0.4)
        optimizer = model.optimizer
        optimizer.build(model.trainable_variables)
        made = tf.Variable(0, dtype=tf.int64)
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="sum")
    chief = json.loads(os.environ["TF_CONFIG"])["task"]["index"] == 0
    folder = os.environ["BENCH_CHECKPOINTS"]
    checkpoint = tf.train.Checkpoint(model=model, optimizer=optimizer, step=made)
    checkpoint.restore(tf.train.latest_checkpoint(folder))
    manager = tf.train.CheckpointManager(checkpoint, folder if chief else tempfile.mkdtemp(), max_to_keep=3)

    def one(batch: Any) -> Any:
        x, y = batch
        with tf.GradientTape() as tape:
            loss = loss_of(y, model(x, training=True)) / GLOBAL_BATCH
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        return loss

    @tf.function
    def step(batch: Any) -> Any:
        return strategy.reduce("SUM", strategy.run(one, args=(batch,)), axis=None)

    while True:
        step(next(batches))
        made.assign_add(1)
        count = int(made.numpy())
        progress[:] = STEP.pack(count, time.time())
        if count % EVERY_STEPS == 0:
            manager.save(checkpoint_number=count)


class StatusHandler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        step, at = STEP.unpack(progress[:])
        said = {"phase": "train", "step": step or None, "restarts": now["restarts"], "updatedAt": f"{at}"}
        body = json.dumps(said).encode()
        self.send_response(200)
        self.send_header("Content-Length", f"{len(body)}")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def wait_for_peers() -> None:
    """Wait until all have a supervisor and the first one's training process listens.

    TensorFlow waits half a minute before it resolves a name again, and a second before it tries a port again.
    """
    config = json.loads(os.environ["TF_CONFIG"])
    first, *_ = workers = [address.split(":") for address in config["cluster"]["worker"]]
    for host, _ in workers:
        wait_for(host, STATUS_PORT)
    if config["task"]["index"]:
        wait_for(first[0], int(first[1]))


def wait_for(host: str, port: int) -> None:
    while True:
        try:
            socket.create_connection((host, port), timeout=1).close()
        except OSError:
            time.sleep(0.02)
        else:
            return


def terminate(*_: object) -> None:
    if now["child"]:
        os.kill(now["child"], signal.SIGKILL)
    os._exit(143)


def main() -> None:
    signal.signal(signal.SIGTERM, terminate)
    server = http.server.ThreadingHTTPServer(("", STATUS_PORT), StatusHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    while True:
        wait_for_peers()
        now["restarts"] += 1
        now["child"] = os.fork()
        if now["child"] == 0:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            try:
                train()
            except Exception as error:  # noqa: BLE001 - a peer is gone
                sys.stderr.write(f"{type(error).__name__}: {error}\n")
            os._exit(1)
        os.waitpid(now["child"], 0)


main()
