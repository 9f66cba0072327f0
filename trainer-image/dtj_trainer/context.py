"""TrainContext: the environment, strategy, rank and replicas of this process."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from dtj_trainer.cluster.environment import Environment
from dtj_trainer.compat.types import Strategy
from dtj_trainer.data.sharding import Sharding
from dtj_trainer.ipc.commands import Commands
from dtj_trainer.ipc.reporter import Reporter
from dtj_trainer.strategy.choose import Choice
from dtj_trainer.strategy.coordination import CoordinationService


@dataclass(frozen=True, slots=True)
class FinishedTraining:
    """The last step of a training, and its metrics."""

    step: int
    metrics: Mapping[str, float]


@dataclass(slots=True)
class TrainContext:
    """The settings, strategy and rank of one process of a job."""

    environment: Environment
    choice: Choice
    strategy: Strategy
    """A `tf.distribute.Strategy`; the default one of this process."""
    coordination: CoordinationService
    reporter: Reporter
    commands: Commands
    seed: int | None
    deterministic: bool
    training_names: list[str | None] = field(default_factory=list)
    """The names of all trainings that have begun in this program, in their order."""
    finished: FinishedTraining | None = None
    """The last training that has finished."""
    interrupted: Exception | None = None
    """What cut off a training, or what followed it, and calls for another start: the program may have caught it."""
    strategy_released: bool = False
    """Whether the strategy is the default one during trainings alone, because the first of them has ended."""

    @property
    def role(self) -> str:
        return self.environment.role

    @property
    def index(self) -> int:
        return self.environment.index

    @property
    def is_chief(self) -> bool:
        """Whether this process writes checkpoints, summaries and the console line."""
        return self.environment.is_chief

    @property
    def workers(self) -> int:
        """Processes that train in step with one another."""
        return self.environment.trainers if self.choice.type == "MultiWorkerMirrored" else 1

    @property
    def asynchronous(self) -> bool:
        """Whether this process schedules steps on workers that do not wait for one another."""
        return self.choice.type == "ParameterServer"

    @property
    def defers_metrics(self) -> bool:
        """Whether steps may not write the accumulators of metrics, because replicas share them without a reduction."""
        return self.choice.type in {"ParameterServer", "CentralStorage"}

    @property
    def rank(self) -> int:
        """The number of this process among those that train in step, from 0."""
        return self.environment.rank if self.workers > 1 else 0

    @property
    def replicas(self) -> int:
        """Replicas of the model over all processes."""
        return int(self.strategy.num_replicas_in_sync)

    @property
    def mirrors(self) -> bool:
        """Whether variables are replicas, be it one, as where a job of workers is scaled to one."""
        import tensorflow as tf

        return self.replicas > 1 or isinstance(
            self.strategy, tf.distribute.MirroredStrategy | tf.distribute.MultiWorkerMirroredStrategy
        )

    @property
    def local_replicas(self) -> int:
        """Replicas of the model in this process."""
        return self.sharding.local_replicas

    @property
    def sharding(self) -> Sharding:
        """How this process and its peers share the data."""
        return Sharding(self.workers, self.rank, self.replicas)
