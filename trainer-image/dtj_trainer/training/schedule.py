"""The length of a training, the steps at which its epochs end, and the batches of each step. Pure.

A step is one optimizer update and takes `accumulate` batches; the last one of an epoch takes what is left. `epochs` and
`steps` together: whichever comes first.
"""

from dataclasses import dataclass, replace

from dtj_trainer.errors import PreflightFailed

OPEN = 1 << 62
"""The batches of an epoch that ends with its data, while it is not known where."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """The length of a training: `steps`, or `epochs` epochs of `batches` batches (None: it has no epochs)."""

    steps: int | None
    epochs: int | None
    batches: int | None
    accumulate: int = 1
    pass_batches: int | None = None
    """The batches of a pass over the data, where an epoch ends with the pass at the latest."""
    initial_epoch: int = 0
    """The index of the first epoch; `epochs` are counted from it."""
    first: int = 0
    """The step at which the first epoch would have begun if all steps had today's batch size."""

    @classmethod
    def of(
        cls,
        epochs: int | None,
        steps: int | None,
        steps_per_epoch: int | None,
        batches_per_pass: int | None,
        *,
        accumulate: int = 1,
        passes_end: bool = False,
        initial_epoch: int = 0,
        open_epochs: int = 0,
    ) -> "Schedule":
        """Return the schedule from the arguments of `fit` or `train`, and the batches in one pass if known.

        Up to `open_epochs` epochs may last until the data ends.

        Raises:
            PreflightFailed: nothing says where the training ends, or a number is impossible.
        """
        for name, value, least in (
            ("epochs", epochs, 0),
            ("initial_epoch", initial_epoch, 0),
            ("steps", steps, 1),
            ("steps_per_epoch", steps_per_epoch, 1),
            ("accumulate", accumulate, 1),
        ):
            if value is not None and value < least:
                raise PreflightFailed(f"{name} is {value}; it has to be at least {least}")
        if steps is None and epochs is None:
            epochs = 1
        batches = steps_per_epoch or batches_per_pass
        if epochs is not None and batches == 0:
            raise PreflightFailed("the data has fewer examples than one global batch; use a smaller batch or more data")
        if batches is None and steps is None and epochs is not None and epochs - initial_epoch <= open_epochs:
            batches = OPEN
        if epochs is not None and batches is None and steps is None:
            raise PreflightFailed("the size of the data is not known; give steps_per_epoch= or steps=")
        ends = batches_per_pass if passes_end else None
        if batches and ends:
            batches = min(batches, ends)
        count = None if epochs is None else max(0, epochs - initial_epoch)
        return cls(steps, count, batches or None, accumulate, ends, initial_epoch)

    def after(self, step: int, batches_before: int) -> "Schedule":
        """Return the schedule after `step` steps that have read as much as `batches_before` batches of today's size."""
        return replace(self, first=step - self._steps_of(batches_before))

    @property
    def total(self) -> int:
        """The step at which the training ends."""
        by_epochs = None if self.epochs is None or not self.batches else self.first + self._epoch_start(self.epochs)
        return min(end for end in (self.steps, by_epochs) if end is not None)

    @property
    def known_total(self) -> int | None:
        """The step at which the training ends; None if that is where its data ends."""
        return None if self.batches == OPEN else self.total

    @property
    def last_epoch(self) -> int:
        """The index after that of the last epoch: what Keras calls `epochs`."""
        if not self.batches:
            return self.initial_epoch + 1
        if self.epochs is not None:
            return self.initial_epoch + self.epochs
        return self.initial_epoch + self._epoch_of(self.total - 1 - self.first) + 1

    def epoch(self, step: int) -> int:
        """Return the epoch, from `initial_epoch`, of the step after `step` steps."""
        return self.initial_epoch + (self._epoch_of(step - self.first) if self.batches else 0)

    def step_in_epoch(self, step: int) -> int:
        """Return the number within its epoch, from 0, of the step after `step` steps."""
        if not self.batches:
            return step
        at = step - self.first
        return at - self._epoch_start(self._epoch_of(at))

    def batches_of(self, step: int) -> int:
        """Return how many batches the step after `step` steps takes."""
        if not self.batches:
            return self.accumulate
        left = self._epoch_batches(self._epoch_of(step - self.first)) - self.step_in_epoch(step) * self.accumulate
        return min(self.accumulate, left)

    def batches_before(self, step: int) -> int:
        """Return how many batches the first `step` steps take, if no pass over the data ends an epoch."""
        if not self.batches:
            return step * self.accumulate
        epoch = self._epoch_of(step)
        return epoch * self.batches + (step - self._epoch_start(epoch)) * self.accumulate

    def beginning_again_after(self, batches: int) -> "Schedule":
        """Return the schedule for data whose passes have so many batches."""
        return replace(self, batches=min(self.batches or batches, batches), pass_batches=batches)

    def ending_after(self, batches: int) -> "Schedule":
        """Return the schedule for data that ends after so many batches and cannot be read again."""
        each = min(self.batches or batches, batches)
        epochs = -(-batches // each)
        epochs = epochs if self.epochs is None else min(self.epochs, epochs)
        return replace(self, batches=each, pass_batches=batches, epochs=epochs)

    def batches_in(self, step: int, steps: int) -> int:
        """Return how many batches `steps` steps of one epoch take, after `step` steps."""
        return (steps - 1) * self.accumulate + self.batches_of(step + steps - 1)

    def next_end(self, step: int) -> int:
        """Return the step at which the current epoch, or the training, ends."""
        if not self.batches:
            return self.total
        return min(self.total, self.first + self._epoch_start(self._epoch_of(step - self.first) + 1))

    def ends_epoch(self, step: int) -> bool:
        """Return whether an epoch ends after `step` steps; the last one ends with the training, complete or not."""
        if step >= self.total:
            return True
        return self.batches is not None and step > 0 and self.step_in_epoch(step) == 0

    @property
    def epoch_steps(self) -> int | None:
        """The steps of an epoch that is not cut short; None without epochs."""
        return -(-self.batches // self.accumulate) if self.batches else None

    def _epoch_batches(self, epoch: int) -> int:
        """Return the batches of an epoch, counted from 0: the last one of a pass may have fewer."""
        assert self.batches
        if self.pass_batches is None or (epoch + 1) % self._epochs_per_pass:
            return self.batches
        return self.pass_batches - (self._epochs_per_pass - 1) * self.batches

    @property
    def _epochs_per_pass(self) -> int:
        assert self.batches
        assert self.pass_batches
        return -(-self.pass_batches // self.batches)

    def _epoch_start(self, epoch: int) -> int:
        """Return the steps before an epoch."""
        assert self.epoch_steps is not None
        if self.pass_batches is None:
            return epoch * self.epoch_steps
        passes, rest = divmod(epoch, self._epochs_per_pass)
        return passes * self._steps_per_pass + rest * self.epoch_steps

    def _epoch_of(self, step: int) -> int:
        """Return the epoch of the step after `step` steps, both counted from 0."""
        assert self.epoch_steps is not None
        if self.pass_batches is None:
            return step // self.epoch_steps
        passes, rest = divmod(step, self._steps_per_pass)
        return passes * self._epochs_per_pass + min(rest // self.epoch_steps, self._epochs_per_pass - 1)

    @property
    def _steps_per_pass(self) -> int:
        assert self.epoch_steps is not None
        last = self._epoch_batches(self._epochs_per_pass - 1)
        return (self._epochs_per_pass - 1) * self.epoch_steps - (-last // self.accumulate)

    def _steps_of(self, batches: int) -> int:
        """Return the steps that take the first `batches` batches."""
        if not self.batches or not self.epoch_steps:
            return -(-batches // self.accumulate)
        if self.pass_batches is None:
            epochs, rest = divmod(batches, self.batches)
            return epochs * self.epoch_steps - (-rest // self.accumulate)
        passes, rest = divmod(batches, self.pass_batches)
        epochs, rest = divmod(rest, self.batches)
        return passes * self._steps_per_pass + epochs * self.epoch_steps - (-rest // self.accumulate)
