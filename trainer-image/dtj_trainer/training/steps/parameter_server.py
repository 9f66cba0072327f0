"""Steps as closures under ParameterServer: workers run them asynchronously, each at its own speed.

A call schedules n closures and waits for all, so that the cluster is idle during saves, validation and reports. Updates
are counted here, by the closures that returned: Keras 3 reads, adds and writes its counters, and workers
overtake one another between the read and the write (measured: 315 of 400 updates counted).
"""

import time
from collections.abc import Callable
from typing import NamedTuple

from dtj_trainer.checkpoint.content import TrainingPosition
from dtj_trainer.compat.types import Array, Coordinator, Structure, Tensor
from dtj_trainer.context import TrainContext
from dtj_trainer.data.adapters.batch_split import Share
from dtj_trainer.data.adapters.tensor_rows import batch_length
from dtj_trainer.training.steps import packing
from dtj_trainer.training.steps.parameter_server_data import ChiefData, WorkerData
from dtj_trainer.training.steps.parameter_server_health import ServerHealth
from dtj_trainer.training.steps.step_iterator import explain_data_end
from dtj_trainer.training.steps.step_runner import StepResult, Votes
from dtj_trainer.training.steps.trainable import StepOutput, Trainable

POLL_SECONDS = 0.0005


class _Returned(NamedTuple):
    """The values that a closure returns."""

    output: StepOutput
    examples: Tensor
    data_wait_seconds: Tensor
    worker: Tensor
    """The index of the worker that ran it."""


class ParameterServerStepRunner:
    """A StepRunner that makes n steps per call, spread over the workers, with the batches of `data(position)`."""

    def __init__(
        self,
        context: TrainContext,
        trainable: Trainable,
        coordinator: Coordinator,
        data: Callable[[TrainingPosition], WorkerData | ChiefData],
    ) -> None:
        self._context = context
        self._trainable = trainable
        self._coordinator = coordinator
        self._data_from = data
        self._step = 0
        self._returned: _Returned
        self.parallel_steps = context.environment.members("worker")

    def prepare(self) -> None:
        """Do nothing: a coordinator has no standby."""

    def seek(self, position: TrainingPosition) -> None:
        """Read from this position on, and compile."""
        self._step = position.step
        self._data = self._data_from(position)
        self._functions: dict[int, Callable[[Structure], Tensor]] = {}
        self._health = ServerHealth(self._context)

    def iterator_state(self, position: TrainingPosition) -> bytes | None:
        """Return None: a coordinator reads past."""

    def __call__(self, steps: int, votes: Votes, batches: int) -> StepResult:
        """Make `steps` steps of `batches` batches each."""
        import numpy as np

        started = time.monotonic()
        with explain_data_end():
            vectors, waited = self._vectors(started, steps, batches)
        self._step += steps
        self._trainable.count_updates(self._step)
        each = [packing.unpack(vector, self._returned) for vector in vectors]
        self._health.used({int(one.worker) for one in each}, steps, time.monotonic() - started)
        updates = packing.unpack(np.sum(vectors, 0), self._returned).output.metric_updates
        self._trainable.add_metric_updates(updates)
        examples = np.array([one.examples for one in each])
        scalars = {name: np.array([one.output.scalars[name] for one in each]) for name in each[0].output.scalars}
        nonfinite = np.flatnonzero(~np.isfinite(scalars["loss"])) if "loss" in scalars else np.array([], int)
        return StepResult(
            means={name: float(np.average(values, weights=examples)) for name, values in scalars.items()},
            last={name: float(values[-1]) for name, values in scalars.items()},
            examples=round(float(examples.sum())),
            data_wait_seconds=waited + float(sum(one.data_wait_seconds for one in each)) / self.parallel_steps,
            nonfinite_step=int(nonfinite[0]) if len(nonfinite) else None,
            votes=votes,
        )

    def _vectors(self, started: float, steps: int, batches: int) -> tuple[list[Array], float]:
        """Return what each closure returned, packed, and the seconds that this process waited for data."""
        import numpy as np

        if batches not in self._functions:
            self._functions[batches] = self._compile(batches)
        waited, vectors = 0.0, []
        for wave in range(0, steps, self._data.wave or steps):
            made = []
            for _ in range(min(steps - wave, self._data.wave or steps)):
                argument, seconds = self._data.argument(batches)
                waited += seconds
                made.append(self._coordinator.schedule(self._functions[batches], args=(argument,)))
            self._await(started, steps)
            vectors += [np.asarray(value.fetch(), np.float64) for value in made]
        return vectors, waited

    def _await(self, started: float, steps: int) -> None:
        """Return when every closure has returned; an exception in one of them is raised here.

        Raises:
            PeerLost: no closure has returned for too long, or a replaced worker does not rejoin.
        """
        while not self._coordinator.done():
            time.sleep(POLL_SECONDS)
            self._health.waiting(time.monotonic() - started, steps)

    def _compile(self, count: int) -> Callable[[Structure], Tensor]:
        import tensorflow as tf

        strategy, trainable = self._context.strategy, self._trainable

        @tf.function(autograph=False)
        def closure(given: Structure) -> Tensor:
            before = tf.timestamp()
            with tf.control_dependencies([before]):
                batches = self._data.read(given, count)
            with tf.control_dependencies(tf.nest.flatten(batches, expand_composites=True)):
                wait = tf.timestamp() - before
            shares = [Share(batch, batch_length(batch), batch_length(batch)) for batch in batches]
            with trainable.tracing():
                output = strategy.run(trainable.train_step, args=(shares,))
            examples = tf.add_n([share.examples for share in shares])
            worker = tf.distribute.coordinator.experimental_get_current_worker_index()
            returned = _Returned(output, examples, wait, worker)
            self._returned = packing.specs(returned)
            return packing.pack(returned)

        compiled: Callable[[Structure], Tensor] = closure
        return compiled


def coordinator(context: TrainContext) -> Coordinator:
    """Return TensorFlow's coordinator; a strategy has one."""
    import tensorflow as tf

    made: Coordinator = tf.distribute.coordinator.ClusterCoordinator(context.strategy)
    return made
