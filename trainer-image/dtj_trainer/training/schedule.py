"""The length of a training, and the steps at which its epochs end. Pure.

A step is one optimizer update. `epochs` and `steps` together: whichever comes first.
"""

from dataclasses import dataclass, replace

from dtj_trainer.errors import PreflightFailed


@dataclass(frozen=True, slots=True)
class Schedule:
    """The length of a training: `steps`, or `passes` epochs of `per_epoch` steps (None: it has no epochs)."""

    steps: int | None
    passes: int | None
    per_epoch: int | None
    first: int = 0
    """The step at which the first epoch would have begun if all steps had today's batch size."""

    @classmethod
    def of(
        cls, epochs: int | None, steps: int | None, steps_per_epoch: int | None, known_epoch_steps: int | None
    ) -> "Schedule":
        """Return the schedule from the arguments of `fit` or `train`, and the steps in one pass over the data if known.

        Raises:
            PreflightFailed: nothing says where the training ends, or a number is impossible.
        """
        for name, value in (("epochs", epochs), ("steps", steps), ("steps_per_epoch", steps_per_epoch)):
            if value is not None and value < 1:
                raise PreflightFailed(f"{name} is {value}; it has to be at least 1")
        per_epoch = steps_per_epoch or known_epoch_steps
        if steps is None and epochs is None:
            epochs = 1
        if epochs is not None and per_epoch == 0:
            raise PreflightFailed("the data has fewer examples than one global batch; use a smaller batch or more data")
        if epochs is not None and per_epoch is None and steps is None:
            raise PreflightFailed("the size of the data is not known; give steps_per_epoch= or steps=")
        return cls(steps, epochs, per_epoch or None)

    def after(self, step: int, as_now: int) -> "Schedule":
        """Return the schedule after `step` steps that read as many examples as `as_now` steps of today's batch size."""
        return replace(self, first=step - as_now)

    @property
    def total(self) -> int:
        """The step at which the training ends."""
        passes = None if self.passes is None or not self.per_epoch else self.first + self.passes * self.per_epoch
        return min(end for end in (self.steps, passes) if end is not None)

    def epoch(self, step: int) -> int:
        """Return the epoch, from 0, of the step after `step` steps."""
        return (step - self.first) // self.per_epoch if self.per_epoch else 0

    def batch(self, step: int) -> int:
        """Return the number within its epoch, from 0, of the step after `step` steps."""
        return (step - self.first) % (self.per_epoch or self.total)

    def next_end(self, step: int) -> int:
        """Return the step at which the current epoch, or the training, ends."""
        if not self.per_epoch:
            return self.total
        return min(self.total, self.first + (self.epoch(step) + 1) * self.per_epoch)

    def ends_epoch(self, step: int) -> bool:
        """Return whether an epoch ends after `step` steps; the last one ends with the training, complete or not."""
        return step >= self.total or (self.per_epoch is not None and step > 0 and self.batch(step) == 0)

    @property
    def epochs(self) -> int:
        return -(-(self.total - self.first) // self.per_epoch) if self.per_epoch else 1
