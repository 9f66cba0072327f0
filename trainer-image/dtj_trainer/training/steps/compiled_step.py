"""The compiled step: a tf.function that makes n steps in one call, then one all-reduce of results and votes.

The number of steps is an argument, so that one trace is used for all calls; another one is made for the last update of
an epoch, if that takes fewer batches.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from dtj_trainer.checkpoint.content import TrainingPosition
from dtj_trainer.compat.types import Structure, Tensor
from dtj_trainer.context import TrainContext
from dtj_trainer.data.adapters.adapter import DataAdapter
from dtj_trainer.strategy.initial_values import broadcast
from dtj_trainer.training.steps import packing
from dtj_trainer.training.steps.step_iterator import StepIterator, explain_data_end
from dtj_trainer.training.steps.step_runner import StepResult, Votes
from dtj_trainer.training.steps.trainable import StepOutput, Trainable


class _Totals(NamedTuple):
    """The sums of one call, over all processes."""

    steps: StepOutput
    """Sums over the examples, of scalars; sums over the steps, of metric updates."""
    last: Mapping[str, Tensor]
    """Sums over the examples of the last step, of scalars, where they are reported."""
    last_examples: Tensor
    examples: Tensor
    data_wait_seconds: Tensor
    votes: Votes


class _Returned(NamedTuple):
    """The values that a call returns."""

    totals: _Totals
    nonfinite_step: Tensor
    """The first step of this process with a loss that is not finite; -1 if there is none."""


class CompiledStep:
    """A StepRunner that makes n steps per call, with the batches of `data`."""

    def __init__(
        self,
        context: TrainContext,
        trainable: Trainable,
        data: DataAdapter,
        *,
        accumulate: int,
    ) -> None:
        self._context = context
        self._trainable = trainable
        self._accumulate = accumulate
        self._iterator = StepIterator(context, data)
        self._functions: dict[int, Callable[[Tensor, Tensor], Tensor]] = {}
        """By the batches of an update."""
        self._returned: _Returned
        self.parallel_steps = 1

    def prepare(self) -> None:
        """Trace without a step, if the trace can be used again after another `seek`."""
        self.seek(TrainingPosition())
        if self._iterator.can_seek:
            self._call(0, Votes(), self._accumulate)

    def seek(self, position: TrainingPosition) -> None:
        """Read from this position on; compiles at the first call."""
        if self._iterator.seek(position):
            return
        broadcast(self._context.strategy)
        self._functions = {}

    def iterator_state(self, position: TrainingPosition) -> bytes | None:
        """Return what lets `seek` continue here without reading what was read, where the data needs and has it."""
        return self._iterator.state_at(position)

    def __call__(self, steps: int, votes: Votes, batches: int) -> StepResult:
        """Make `steps` steps of `batches` batches each."""
        totals, nonfinite = self._call(steps, votes, batches)
        if totals.steps.metric_updates:
            self._trainable.add_metric_updates(totals.steps.metric_updates)
        examples = float(totals.examples)
        return StepResult(
            means={name: float(total) / examples for name, total in totals.steps.scalars.items()},
            last={name: float(total) / float(totals.last_examples) for name, total in totals.last.items()},
            examples=round(examples),
            data_wait_seconds=float(totals.data_wait_seconds) / self._context.workers,
            nonfinite_step=None if nonfinite < 0 else int(nonfinite),
            votes=Votes(*map(float, totals.votes)),
        )

    def _call(self, steps: int, votes: Votes, batches: int) -> _Returned:
        import tensorflow as tf

        if batches not in self._functions:
            self._functions[batches] = self._compile(batches)
        with explain_data_end():
            vector = self._functions[batches](tf.constant(steps, tf.int64), tf.constant(votes, tf.float64))
        return packing.unpack(vector.numpy(), self._returned)

    def _compile(self, batch_count: int) -> Callable[[Tensor, Tensor], Tensor]:
        import tensorflow as tf

        context, strategy, trainable = self._context, self._context.strategy, self._trainable
        scalar = tf.TensorSpec([], tf.float64)

        def one_update(batches: Structure) -> tuple[StepOutput, Tensor]:
            """Make an update on one replica; returns the number of its examples too."""
            shares = tuple(map(self._iterator.share, batches))
            return trainable.train_step(shares), tf.add_n([share.examples for share in shares])

        @tf.function(
            input_signature=[tf.TensorSpec([], tf.int64), tf.TensorSpec([len(Votes())], tf.float64)], autograph=False
        )
        def call(steps: Tensor, votes: Tensor) -> Tensor:
            def update() -> StepOutput:
                output: StepOutput = strategy.run(one_update, args=(self._iterator.read(batch_count)[0],))[0]
                return output

            output = trainable.output_spec(update)
            last = dict(output.scalars) if trainable.reports_last_step else {}
            totals = _Totals(output, last, scalar, scalar, scalar, Votes(*[scalar] * len(Votes())))
            self._returned = _Returned(totals, scalar)

            def body(
                done: Tensor, sums: Tensor, _last: Tensor, examples: Tensor, wait: Tensor, nonfinite: Tensor
            ) -> Structure:
                batches, seconds = self._iterator.read(batch_count)
                new, examples_here = strategy.run(one_update, args=(batches,))
                counts = strategy.experimental_local_results(examples_here)
                scalars = {name: self._sum_over_examples(new.scalars[name], counts) for name in output.scalars}
                if "loss" in scalars:
                    first = (nonfinite < 0) & ~tf.math.is_finite(scalars["loss"])
                    nonfinite = tf.where(first, done, nonfinite)
                sums = sums + packing.pack(StepOutput(scalars, tuple(map(self._sum_over_replicas, new.metric_updates))))
                count = tf.add_n(counts)
                new_last = packing.pack(({name: scalars[name] for name in last}, count))
                return done + 1, sums, new_last, examples + count, wait + seconds, nonfinite

            zero = tf.constant(0, tf.int64)
            sums, none = tf.zeros([packing.size(output)], tf.float64), tf.zeros([len(last) + 1], tf.float64)
            start = (zero, sums, none, zero, tf.constant(0.0, tf.float64), zero - 1)
            with trainable.tracing():
                _, sums, last_sums, examples, wait, nonfinite = tf.while_loop(
                    lambda done, *_: done < steps, body, start
                )
            vector = packing.pack((sums, last_sums, examples, wait, votes))
            if context.workers > 1:
                vector = packing.sum_over_processes(strategy, vector, local_replicas=context.local_replicas)
            return packing.pack((vector, nonfinite))

        compiled: Callable[[Tensor, Tensor], Tensor] = call
        return compiled

    def _sum_over_examples(self, mean: Tensor, counts: Sequence[Tensor]) -> Tensor:
        """Return the sum over this process's examples, from the mean of each replica."""
        import tensorflow as tf

        parts = zip(self._context.strategy.experimental_local_results(mean), counts, strict=True)
        return tf.add_n([tf.math.multiply_no_nan(tf.cast(p, tf.float64), tf.cast(n, tf.float64)) for p, n in parts])

    def _sum_over_replicas(self, update: Tensor) -> Tensor:
        """Return the sum over this process's replicas."""
        import tensorflow as tf

        parts = self._context.strategy.experimental_local_results(update)
        return tf.add_n([tf.cast(part, tf.float64) for part in parts])
