"""The StepRunner, the result of its calls, and the number of steps in one call."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from dtj_trainer.checkpoint.content import TrainingPosition

TARGET_SECONDS = 0.25
LARGEST = 10_000
GROWTH = 16


class Votes(NamedTuple):
    """The votes of a process in each call; all processes get the sum."""

    seconds_per_step: float = 0.0
    save: float = 0.0
    stop: float = 0.0
    report: float = 0.0
    stop_training: float = 0.0


@dataclass(frozen=True, slots=True)
class StepResult:
    """The result of a call of n steps, over all processes."""

    means: Mapping[str, float]
    """Mean over the examples of the steps, by name."""
    last: Mapping[str, float]
    """The same of the last step alone, where the trainable reports that."""
    examples: int
    data_wait_seconds: float
    """Time that a process waited for data, on average."""
    nonfinite_step: int | None
    """Number, from 0, of the first step of this call whose loss on this process was not finite."""
    votes: Votes
    """Sums over the processes."""


class StepRunner(Protocol):
    """A runner of steps: this process and its peers together, or the workers of a ParameterServer job."""

    parallel_steps: int
    """Steps that are made at the same time."""

    def prepare(self) -> None:
        """Prepare as far as possible before the position is known."""

    def seek(self, position: TrainingPosition) -> None:
        """Continue at this position; called before the first step."""

    def iterator_state(self, position: TrainingPosition) -> bytes | None:
        """Return what lets `seek` continue at this position, the present one, without reading what was read."""

    def __call__(self, steps: int, votes: Votes, batches: int) -> StepResult:
        """Make `steps` updates of `batches` batches each."""


class StepsPerExecutionTuner:
    """The tuner of the number of steps per call; equal in every process that gets the same numbers.

    A call costs Python and TensorFlow a few hundred microseconds, much for a tiny model (three times faster with
    twenty steps a call); a long call delays saves, stops and reports. So calls grow until they last TARGET_SECONDS.
    """

    def __init__(self, least: int = 1) -> None:
        self.least = least
        """Steps that can be made at the same time: no call is shorter."""
        self.count = least

    def learn(self, seconds_per_step: float) -> None:
        """Choose again; `seconds_per_step` 0 = not known yet (the first call compiles)."""
        if seconds_per_step <= 0:
            return
        wanted = int(TARGET_SECONDS / seconds_per_step)
        self.count = max(self.least, min(wanted, self.count * GROWTH, LARGEST))
