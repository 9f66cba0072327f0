"""The compiled function: n steps in one call, then what all processes have to know of each other.

The number of steps is an argument, so that one trace serves the first step and all later calls.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from dtj_trainer.checkpoint.content import TrainingPosition
from dtj_trainer.compat import tensorflow as compat
from dtj_trainer.initialization import Session
from dtj_trainer.strategy.initial_values import broadcast
from dtj_trainer.training.data_end import data_end
from dtj_trainer.training.steps.step_iterator import step_iterator
from dtj_trainer.training.steps.trainable import Trainee


@dataclass(frozen=True, slots=True)
class Ballot:
    """What a process says to the others; they see the sum over processes."""

    seconds_per_step: float = 0.0
    save: float = 0.0
    stop: float = 0.0
    report: float = 0.0
    finish: float = 0.0

    def values(self) -> list[float]:
        return [self.seconds_per_step, self.save, self.stop, self.report, self.finish]


@dataclass(frozen=True, slots=True)
class Called:
    """What a call of n steps brought, over all processes."""

    means: Mapping[str, float]
    """Mean over the examples of the steps, by name."""
    examples: int
    wait_seconds: float
    """Time that a process waited for data, on average."""
    bad_step: int | None
    """Number, from 0, of the first step of this call whose loss on this process was not finite."""
    ballot: Ballot
    """Sums over the processes."""


class Caller(Protocol):
    """Makes steps."""

    parallel: int
    """Steps that are made at the same time."""

    def prepare(self) -> None:
        """Do what can be done before the position is known."""

    def seek(self, position: TrainingPosition) -> None:
        """Go on at this position; comes before the first call."""

    def __call__(self, steps: int, ballot: Ballot) -> Called: ...


class Call:
    """`n` steps at once on batches of what `dataset` gives for a position, each update from `accumulate` of them."""

    def __init__(
        self, session: Session, trainee: Trainee, dataset: Callable[[TrainingPosition], Any], accumulate: int
    ) -> None:
        self._session = session
        self._trainee = trainee
        self._dataset = dataset
        self._accumulate = accumulate
        self._names: tuple[str, ...] = ()
        self._shapes: list[tuple[int, ...]] = []
        self._iterator: Any = None
        self._function: Any = None
        self.parallel = 1

    def prepare(self) -> None:
        """Trace and run no step, where the trace can be used from another position on."""
        self.seek(TrainingPosition())
        if compat.can_seek(self._iterator):
            self._row(0, Ballot())

    def seek(self, position: TrainingPosition) -> None:
        dataset = self._dataset(position)
        if self._function is not None and compat.can_seek(self._iterator):
            compat.restart_iterator(self._iterator, dataset)
            return
        self._iterator = step_iterator(dataset, self._session.strategy, self._session.local_replicas)
        broadcast(self._session.strategy)
        self._function = self._compile()

    def _row(self, steps: int, ballot: Ballot) -> Any:
        import tensorflow as tf

        with data_end():
            return self._function(tf.constant(steps, tf.int64), tf.constant(ballot.values(), tf.float64)).numpy()

    def __call__(self, steps: int, ballot: Ballot) -> Called:
        row = self._row(steps, ballot)
        names, extra = self._names, sum(math.prod(shape) for shape in self._shapes)
        self._collect(row[len(names) : len(names) + extra])
        values = [float(value) for value in row]
        sums, rest = values[: len(names)], values[len(names) + extra :]
        bad = int(rest[-1])
        return Called(
            means={name: value / rest[0] for name, value in zip(names, sums, strict=True)},
            examples=round(rest[0]),
            wait_seconds=rest[1] / self._session.workers,
            bad_step=None if bad < 0 else bad,
            ballot=Ballot(*rest[2:-1]),
        )

    def _collect(self, flat: Any) -> None:
        """Hand the trainee what its steps added to the metrics' accumulators, where they could not write these."""
        values, at = [], 0
        for shape in self._shapes:
            values.append(flat[at : at + math.prod(shape)].reshape(shape))
            at += math.prod(shape)
        if values:
            self._trainee.collect(values)

    def _step(self, batches: Any) -> tuple[Any, list[Any]]:
        """One update, and what it adds to accumulators that it may not write."""
        if self._session.counts_apart:
            return self._trainee.step_apart(batches)
        return self._trainee.step(batches), []

    def _added(self, value: Any) -> Any:
        """The sum over this process's replicas, flat."""
        import tensorflow as tf

        parts = self._session.strategy.experimental_local_results(value)
        return tf.reshape(tf.add_n([tf.cast(part, tf.float64) for part in parts]), [-1])

    def _compile(self) -> Any:
        import tensorflow as tf

        session, strategy = self._session, self._session.strategy

        def read() -> tuple[Any, Any]:
            """One update's batches, and the seconds they took to come (0 under op determinism, which has no clock)."""
            if session.deterministic:
                return tuple(next(self._iterator) for _ in range(self._accumulate)), tf.constant(0.0, tf.float64)
            before = tf.timestamp()
            with tf.control_dependencies([before]):
                batches = tuple(next(self._iterator) for _ in range(self._accumulate))
            with tf.control_dependencies(tf.nest.flatten(batches, expand_composites=True)):
                return batches, tf.timestamp() - before

        def count(batches: Any) -> list[Any]:
            """Examples of one update on each replica of this process."""
            firsts = [strategy.experimental_local_results(tf.nest.flatten(batch)[0]) for batch in batches]
            return [
                tf.add_n([tf.shape(part, out_type=tf.int64)[0] for part in parts])
                for parts in zip(*firsts, strict=True)
            ]

        def total(value: Any, counts: list[Any]) -> Any:
            """The sum over this process's examples of what is a mean on each replica."""
            parts = zip(strategy.experimental_local_results(value), counts, strict=True)
            return tf.add_n([tf.math.multiply_no_nan(tf.cast(p, tf.float64), tf.cast(n, tf.float64)) for p, n in parts])

        @tf.function(
            input_signature=[tf.TensorSpec([], tf.int64), tf.TensorSpec([len(Ballot().values())], tf.float64)],
            autograph=False,
        )
        def call(steps: Any, ballot: Any) -> Any:
            names = self._names = self._trainee.names(strategy, read)
            shapes = self._shapes = self._trainee.accumulators() if session.counts_apart else []

            def body(done: Any, sums: Any, examples: Any, wait: Any, bad: Any) -> Any:
                batches, seconds = read()
                scalars, extra = strategy.run(self._step, args=(batches,))
                counts = count(batches)
                new = [total(scalars[name], counts) for name in names]
                if "loss" in names:
                    worse = (bad < 0) & ~tf.math.is_finite(new[names.index("loss")])
                    bad = tf.where(worse, done, bad)
                if names or extra:
                    sums = sums + tf.concat([tf.stack(new) if names else [], *map(self._added, extra)], 0)
                return done + 1, sums, examples + tf.add_n(counts), wait + seconds, bad

            zero = tf.constant(0, tf.int64)
            start = (
                zero,
                tf.zeros([len(names) + sum(map(math.prod, shapes))], tf.float64),
                zero,
                tf.constant(0.0, tf.float64),
                zero - 1,
            )
            with self._trainee.tracing():
                _, sums, examples, wait, bad = tf.while_loop(lambda done, *_: done < steps, body, start)
            row = tf.concat([sums, [tf.cast(examples, tf.float64)], [wait], ballot], 0)
            if session.workers > 1:
                row = self._over_processes(tf, row)
            return tf.concat([row, [tf.cast(bad, tf.float64)]], 0)

        return call

    def _over_processes(self, tf: Any, row: Any) -> Any:
        def summed(part: Any) -> Any:
            replica = tf.distribute.get_replica_context()
            return replica.all_reduce(tf.distribute.ReduceOp.SUM, part / self._session.local_replicas)

        strategy = self._session.strategy
        return strategy.experimental_local_results(strategy.run(summed, args=(row,)))[0]
