"""What makes steps, what a call of it brings, and how many steps it makes in one call."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from dtj_trainer.checkpoint.content import TrainingPosition

TARGET_SECONDS = 0.25
LARGEST = 10_000
GROWTH = 16


class Votes(NamedTuple):
    """What a process tells the others with each call; they see the sum over processes."""

    seconds_per_step: float = 0.0
    save: float = 0.0
    stop: float = 0.0
    report: float = 0.0
    stop_training: float = 0.0


@dataclass(frozen=True, slots=True)
class StepResult:
    """What a call of n steps brought, over all processes."""

    means: Mapping[str, float]
    """Mean over the examples of the steps, by name."""
    examples: int
    data_wait_seconds: float
    """Time that a process waited for data, on average."""
    nonfinite_step: int | None
    """Number, from 0, of the first step of this call whose loss on this process was not finite."""
    votes: Votes
    """Sums over the processes."""


class StepRunner(Protocol):
    """Makes steps: this process and its peers together, or the workers of a ParameterServer job."""

    parallel_steps: int
    """Steps that are made at the same time."""

    def prepare(self) -> None:
        """Do what can be done before the position is known."""

    def seek(self, position: TrainingPosition) -> None:
        """Go on at this position; comes before the first call."""

    def __call__(self, steps: int, votes: Votes) -> StepResult: ...


class StepsPerExecutionTuner:
    """Chooses how many steps the next call makes; equal in every process that is told the same numbers.

    A call costs Python and TensorFlow a few hundred microseconds, which a tiny model feels (three times faster with
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
