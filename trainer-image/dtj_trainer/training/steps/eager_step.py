"""The step that Python runs op by op, for a model that was compiled with `run_eagerly=True`: on one device."""

import math

from dtj_trainer.checkpoint.content import TrainingPosition
from dtj_trainer.compat.types import Structure
from dtj_trainer.context import TrainContext
from dtj_trainer.data.adapters.adapter import DataAdapter
from dtj_trainer.training.steps.step_iterator import StepIterator, explain_data_end
from dtj_trainer.training.steps.step_runner import StepResult, Votes
from dtj_trainer.training.steps.trainable import StepOutput, Trainable


class EagerStep:
    """A StepRunner for one replica that compiles nothing."""

    parallel_steps = 1

    def __init__(self, context: TrainContext, trainable: Trainable, data: DataAdapter) -> None:
        self._context = context
        self._trainable = trainable
        self._iterator = StepIterator(context, data)

    def prepare(self) -> None:
        """Do nothing: there is nothing to compile."""

    def seek(self, position: TrainingPosition) -> None:
        """Read from this position on."""
        self._iterator.seek(position)

    def iterator_state(self, position: TrainingPosition) -> bytes | None:
        """Return what lets `seek` continue here without reading what was read, where the data needs and has it."""
        return self._iterator.state_at(position)

    def __call__(self, steps: int, votes: Votes, batches: int) -> StepResult:
        """Make `steps` steps of `batches` batches each."""
        sums: dict[str, float] = {}
        last: dict[str, float] = {}
        examples, waited, nonfinite = 0, 0.0, None
        for number in range(steps):
            with explain_data_end():
                elements, seconds = self._iterator.read(batches)
            last, count = self._update(elements)
            for name, mean in last.items():
                sums[name] = sums.get(name, 0.0) + mean * count
            if nonfinite is None and not math.isfinite(last.get("loss", 0.0)):
                nonfinite = number
            examples, waited = examples + count, waited + float(seconds)
        means = {name: total / examples for name, total in sums.items()}
        return StepResult(means, last, examples, waited, nonfinite, votes)

    def _update(self, elements: Structure) -> tuple[dict[str, float], int]:
        """Make one update; returns its scalars and the number of its examples."""

        def one(elements: Structure) -> tuple[StepOutput, int]:
            shares = tuple(map(self._iterator.share, elements))
            return self._trainable.train_step(shares), sum(int(share.examples) for share in shares)

        with self._trainable.tracing():
            output, count = self._context.strategy.run(one, args=(elements,))
        return {name: float(value) for name, value in output.scalars.items()}, count
