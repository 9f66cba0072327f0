"""The scalars of the steps since the last report, as means over their examples."""

from collections.abc import Mapping

from dtj_trainer.training.steps.step_runner import StepResult


class EpochMetrics:
    """The sums of scalars over `examples`; `last` are those of the last step, where the trainable reports them."""

    def __init__(self, sums: Mapping[str, float], examples: int) -> None:
        self.sums = dict(sums)
        self.examples = examples
        self.last: Mapping[str, float] = {}

    def add(self, result: StepResult) -> None:
        """Add the steps of one call."""
        for name, value in result.means.items():
            self.sums[name] = self.sums.get(name, 0.0) + value * result.examples
        self.examples += result.examples
        self.last = result.last

    def means(self) -> dict[str, float]:
        """Return the means over the examples."""
        return {name: total / self.examples for name, total in self.sums.items()}

    def reset(self) -> None:
        """Forget all steps so far."""
        self.sums, self.examples = {}, 0
