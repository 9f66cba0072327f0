"""Steps as closures under ParameterServer: workers make them as fast as each can, asynchronously.

A call schedules n closures and waits for all, so that saves, validation and reports see a still cluster. What must not
lose counts is counted here, by the closures that came back: Keras 3 reads, adds and writes its counters, and workers
overtake one another between the read and the write (measured: 315 of 400 updates counted).
"""

import time
from collections.abc import Callable
from typing import Any

from dtj_trainer.checkpoint.content import TrainingPosition
from dtj_trainer.initialization import Session
from dtj_trainer.training.data_end import data_end
from dtj_trainer.training.steps.compiled_step import Ballot, Called
from dtj_trainer.training.steps.parameter_server_data import FromChief, OnWorkers
from dtj_trainer.training.steps.parameter_server_health import ServerWatch
from dtj_trainer.training.steps.trainable import Trainee

POLL_SECONDS = 0.0005


class Closures:
    """`n` steps at once, spread over the workers, with what `data` gives for a position."""

    def __init__(
        self,
        session: Session,
        trainee: Trainee,
        coordinator: Any,
        data: Callable[[TrainingPosition], OnWorkers | FromChief],
    ) -> None:
        self._session = session
        self._trainee = trainee
        self._coordinator = coordinator
        self._data_from = data
        self._step = 0
        self._names: tuple[str, ...] = ()
        self._shapes: list[Any] = []
        self.parallel = session.environment.members("worker")

    def prepare(self) -> None:
        """Nothing: a coordinator has no standby."""

    def seek(self, position: TrainingPosition) -> None:
        self._step = position.step
        self._data = self._data_from(position)
        self._function = self._compile()
        self._watch = ServerWatch(self._session)

    def __call__(self, steps: int, ballot: Ballot) -> Called:
        import numpy as np

        started = time.monotonic()
        with data_end():
            rows, waited = self._rows(started, steps)
        self._step += steps
        self._trainee.count_updates(self._step)
        names = len(self._names)
        table: Any = np.stack(rows)
        scalars, rest, accumulated = table[:, :names], table[:, names : names + 3], table[:, names + 3 :]
        self._watch.used({int(worker) for worker in rest[:, 2]}, steps, time.monotonic() - started)
        self._collect(accumulated.sum(0))
        losses = scalars[:, self._names.index("loss")] if "loss" in self._names else scalars[:, :0]
        bad = np.flatnonzero(~np.isfinite(losses))
        return Called(
            means=dict(zip(self._names, map(float, np.average(scalars, 0, weights=rest[:, 0])), strict=True)),
            examples=round(float(rest[:, 0].sum())),
            wait_seconds=waited + float(rest[:, 1].sum()) / self.parallel,
            bad_step=int(bad[0]) if len(bad) else None,
            ballot=ballot,
        )

    def _rows(self, started: float, steps: int) -> tuple[list[Any], float]:
        """What each closure returned, and the seconds that this process waited for data."""
        import numpy as np

        waited, rows = 0.0, []
        for wave in range(0, steps, self._data.wave or steps):
            made = []
            for _ in range(min(steps - wave, self._data.wave or steps)):
                argument, seconds = self._data.argument()
                waited += seconds
                made.append(self._coordinator.schedule(self._function, args=(argument,)))
            self._await(started, steps)
            rows += [np.asarray(value.fetch(), np.float64) for value in made]
        return rows, waited

    def _await(self, started: float, steps: int) -> None:
        """Return when every closure has come back; what one of them raised is raised here.

        Raises:
            PeerLost: nothing came back for too long, or a replaced worker is not taken in again.
        """
        while not self._coordinator.done():
            time.sleep(POLL_SECONDS)
            self._watch.waiting(time.monotonic() - started, steps)

    def _collect(self, flat: Any) -> None:
        """Hand the sums of the metrics' accumulators to the trainee, each in its own shape."""
        import numpy as np

        values, at = [], 0
        for shape in self._shapes:
            size = int(np.prod(shape, dtype=int))
            values.append(flat[at : at + size].reshape(shape))
            at += size
        self._trainee.collect(values)

    def _compile(self) -> Any:
        import tensorflow as tf

        strategy, trainee = self._session.strategy, self._trainee

        def flat(value: Any) -> Any:
            return tf.reshape(tf.cast(value, tf.float64), [-1])

        @tf.function(autograph=False)
        def closure(given: Any) -> Any:
            before = tf.timestamp()
            with tf.control_dependencies([before]):
                batches = self._data.read(given)
            with tf.control_dependencies(tf.nest.flatten(batches, expand_composites=True)):
                wait = tf.timestamp() - before
            examples = tf.add_n([tf.shape(tf.nest.flatten(batch)[0])[0] for batch in batches])
            with trainee.tracing():
                scalars, accumulated = strategy.run(trainee.step_apart, args=(batches,))
            self._names = tuple(scalars)
            self._shapes = [tuple(value.shape) for value in accumulated]
            worker = tf.distribute.coordinator.experimental_get_current_worker_index()
            parts = [*scalars.values(), examples, wait, worker, *accumulated]
            return tf.concat([flat(part) for part in parts], 0)

        return closure


def coordinator(session: Session) -> Any:
    """TensorFlow's coordinator; a strategy has one."""
    import tensorflow as tf

    return tf.distribute.coordinator.ClusterCoordinator(session.strategy)
