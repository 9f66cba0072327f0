"""A program that trains by `dtj.fit` without end: one epoch whenever the other end of a socket asks for it."""

import socket
import sys
from typing import Any

import keras

import dtj
from bench.trainer.loop import CNN


class EpochOnRequest(keras.callbacks.Callback):
    """A callback that waits before each epoch, so that its whole cost, a save included, falls between two requests."""

    def on_train_begin(self, logs: Any = None) -> None:  # noqa: ARG002 - Keras gives it
        self.other = socket.socket(socket.AF_UNIX)
        self.other.connect(sys.argv[1])

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002 - Keras gives it
        self.other.send(b".")
        self.other.recv(1)


if __name__ == "__main__":
    dtj.init(seed=1)
    dtj.fit(CNN.model(), CNN.data(), epochs=1_000_000, steps_per_epoch=CNN.steps, callbacks=[EpochOnRequest()])
