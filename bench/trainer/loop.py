"""Steps a second of the trainer's loop, a handwritten loop and Keras `fit`, alternating within one process.

A round is one epoch of `dtj.fit`; at its end, in a callback, the two others make as many steps of the same model on the
same data, with the same threads. Nothing is compiled in a round. Figures are medians over the rounds of ratios within a
round.

Run by `python -m bench.trainer` under `dtj-run`, for one case and one strategy: prints one JSON object.
"""

import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import dtj
from dtj_trainer.training.steps.compiled_step import CompiledStep

ROUNDS = 15


@dataclass(frozen=True)
class Case:
    """A model, its data, and the number of steps in a round."""

    name: str
    shape: tuple[int, ...]
    batch: int
    steps: int
    layers: Callable[[], list[Any]]

    def model(self) -> Any:
        keras.utils.set_random_seed(1)
        made = keras.Sequential([keras.Input(self.shape), *self.layers()])
        made.compile(keras.optimizers.Adam(1e-3), "sparse_categorical_crossentropy", jit_compile=False)
        return made

    def data(self) -> Any:
        rng = np.random.default_rng(0)
        x = rng.normal(size=(4 * self.batch, *self.shape)).astype("float32")
        y = rng.integers(0, 10, size=(4 * self.batch,))
        batches = tf.data.Dataset.from_tensor_slices((x, y)).cache().repeat().batch(self.batch, drop_remainder=True)
        return batches.prefetch(tf.data.AUTOTUNE)


def small() -> list[Any]:
    return [keras.layers.Dense(64, activation="relu"), keras.layers.Dense(10, activation="softmax")]


def convolutions() -> list[Any]:
    layers = keras.layers
    first, second = layers.Conv2D(16, 3, activation="relu"), layers.Conv2D(32, 3, activation="relu")
    head = [layers.Flatten(), layers.Dense(64, activation="relu"), layers.Dense(10, activation="softmax")]
    return [first, layers.MaxPooling2D(), second, layers.MaxPooling2D(), *head]


TINY, CNN = Case("tiny", (20,), 32, 200, small), Case("cnn", (28, 28, 1), 128, 20, convolutions)
CASES = (TINY, CNN)

EpochTimer = Callable[[], float]
"""Makes the steps of a round; returns the seconds they took."""


def handwritten_loop(case: Case, strategy: Any) -> EpochTimer:
    """Return a loop as written without this project: one step a call, the batch taken inside it."""
    model, batches = case.model(), iter(strategy.experimental_distribute_dataset(case.data()))

    @tf.function
    def step(iterator: Any) -> Any:
        def one(batch: Any) -> Any:
            x, y = batch
            with tf.GradientTape() as tape:
                loss = model.compute_loss(x, y, model(x, training=True))
            variables = model.trainable_variables
            model.optimizer.apply(tape.gradient(loss, [v.value for v in variables]), variables)
            return loss

        return strategy.reduce("SUM", strategy.run(one, args=(next(iterator),)), axis=None)

    def run_epoch() -> float:
        started = time.perf_counter()
        loss = None
        for _ in range(case.steps):
            loss = step(batches)
        float(loss)
        return time.perf_counter() - started

    return run_epoch


def keras_fit_loop(case: Case) -> EpochTimer:
    """Return a timer of the second of two epochs of a `fit`: the first one makes the iterator."""
    model, batches = case.model(), case.data()

    class Clock(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002 - Keras gives it
            self.started = time.perf_counter()

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002 - Keras gives it
            self.seconds = time.perf_counter() - self.started

    def run_epoch() -> float:
        clock = Clock()
        model.fit(batches, steps_per_epoch=case.steps, epochs=2, verbose=0, callbacks=[clock])
        return clock.seconds

    return run_epoch


class AlternatingEpochs(keras.callbacks.Callback):
    """A callback that times the epochs of `dtj.fit`, and runs the others' epochs in between."""

    def __init__(self, others: dict[str, EpochTimer], calls: "MethodTimer") -> None:
        super().__init__()
        self.others = others
        self.calls = calls
        self.found: dict[str, list[float]] = {"dtj": [], **{name: [] for name in others}}

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002 - Keras gives it
        if epoch == 1:
            self.calls.spent.clear()
        self.started = time.perf_counter()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002 - Keras gives it
        mine = time.perf_counter() - self.started
        theirs = {name: epoch_of_other() for name, epoch_of_other in self.others.items()}
        if epoch:  # the first one compiles
            for name, value in {"dtj": mine, **theirs}.items():
                self.found[name].append(value)

    def ratios(self, name: str) -> list[float]:
        """Return how many steps we make while `name` makes one: quartiles over the rounds."""
        each = (theirs / ours for ours, theirs in zip(self.found["dtj"], self.found[name], strict=True))
        return statistics.quantiles(each, n=4)


class MethodTimer:
    """A timer of the seconds spent in a method, on the training's thread."""

    def __init__(self, owner: type, name: str) -> None:
        self.spent: list[float] = []
        inner = getattr(owner, name)

        def timed(*arguments: Any) -> Any:
            started = time.perf_counter()
            try:
                return inner(*arguments)
            finally:
                self.spent.append(time.perf_counter() - started)

        setattr(owner, name, timed)


def main() -> None:
    case = next(case for case in CASES if case.name == sys.argv[1])
    session = dtj.init(seed=1)
    calls = MethodTimer(CompiledStep, "__call__")
    alternating = AlternatingEpochs(
        {"handwritten": handwritten_loop(case, session.strategy), "keras_fit": keras_fit_loop(case)}, calls
    )
    for warm_up in alternating.others.values():
        warm_up()
    dtj.fit(case.model(), case.data(), epochs=ROUNDS + 1, steps_per_epoch=case.steps, callbacks=[alternating])
    ours = sum(alternating.found["dtj"])
    found: dict[str, Any] = {
        "steps_per_second": ROUNDS * case.steps / ours,
        "beside_steps_percent": 100 * (1 - sum(calls.spent) / ours),
    }
    for name in alternating.others:
        low, median, high = alternating.ratios(name)
        found |= {f"ratio_{name}": median, f"ratio_{name}_quartiles": [low, high]}
    sys.stdout.write(f"BENCH {json.dumps(found)}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
