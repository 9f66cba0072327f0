"""How long a training is, and where its epochs end. Pure.

A step is one optimizer update. `epochs` and `steps` together: whichever comes first.
"""

from dataclasses import dataclass, replace

from dtj_trainer.errors import PreflightFailed


@dataclass(frozen=True, slots=True)
class Schedule:
    """So many steps, or so many passes of `per_epoch` steps (None: the training has no epochs)."""

    steps: int | None
    passes: int | None
    per_epoch: int | None
    first: int = 0
    """The update count at which the first epoch would have begun, had all updates been as large as now."""

    @classmethod
    def of(
        cls, epochs: int | None, steps: int | None, steps_per_epoch: int | None, known_epoch_steps: int | None
    ) -> "Schedule":
        """From the arguments of `fit` and `train`, and the updates in one pass over the data, where known.

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
        """The same epochs for a training whose `step` updates took as many examples as `as_now` updates take now."""
        return replace(self, first=step - as_now)

    @property
    def total(self) -> int:
        """The update count at which the training ends."""
        passes = None if self.passes is None or not self.per_epoch else self.first + self.passes * self.per_epoch
        return min(end for end in (self.steps, passes) if end is not None)

    def epoch(self, step: int) -> int:
        """The epoch, from 0, that the step after `step` updates belongs to."""
        return (step - self.first) // self.per_epoch if self.per_epoch else 0

    def batch(self, step: int) -> int:
        """The number, from 0, of the step after `step` updates in its epoch."""
        return (step - self.first) % (self.per_epoch or self.total)

    def next_end(self, step: int) -> int:
        """The update count at which the current epoch, or the training, ends."""
        if not self.per_epoch:
            return self.total
        return min(self.total, self.first + (self.epoch(step) + 1) * self.per_epoch)

    def ends_epoch(self, step: int) -> bool:
        """Whether an epoch is over after `step` updates; the end of the training ends its last one, complete or not."""
        return step >= self.total or (self.per_epoch is not None and step > 0 and self.batch(step) == 0)

    @property
    def epochs(self) -> int:
        return -(-(self.total - self.first) // self.per_epoch) if self.per_epoch else 1
