"""How long a training is, and where its epochs end. Pure.

A step is one optimizer update. `epochs` and `steps` together: whichever comes first.
"""

from dataclasses import dataclass

from dtj_trainer.errors import PreflightFailed


@dataclass(frozen=True, slots=True)
class Length:
    """Total steps, and steps an epoch (None: the training has no epochs)."""

    total: int
    per_epoch: int | None

    def epoch(self, step: int) -> int:
        """The epoch, from 0, that the step after `step` updates belongs to."""
        return step // self.per_epoch if self.per_epoch else 0

    def next_end(self, step: int) -> int:
        """The update count at which the current epoch, or the training, ends."""
        if not self.per_epoch:
            return self.total
        return min(self.total, (step // self.per_epoch + 1) * self.per_epoch)

    def ends_epoch(self, step: int) -> bool:
        """Whether an epoch is over after `step` updates; the end of the training ends its last one, complete or not."""
        return step >= self.total or (self.per_epoch is not None and step > 0 and step % self.per_epoch == 0)

    @property
    def epochs(self) -> int:
        return -(-self.total // self.per_epoch) if self.per_epoch else 1


def length(epochs: int | None, steps: int | None, steps_per_epoch: int | None, known_epoch_steps: int | None) -> Length:
    """Work out the length.

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
    ends = [end for end in (steps, epochs * per_epoch if epochs and per_epoch else None) if end is not None]
    return Length(min(ends), per_epoch or None)
