"""The adapter of Pipelines, for training and validation."""

from typing import Any

from dtj_trainer.data.adapters.batch_split import split_own_for_replicas, without_autotune
from dtj_trainer.data.pipeline import Pipeline
from dtj_trainer.data.position import DataPosition, ReadSpan
from dtj_trainer.data.sharding import BatchSize, Shard, Sharding
from dtj_trainer.data.sources.arrays import Arrays

EVALUATION_BATCH = 128
"""Examples a process where the training's batch size is not known."""


class PipelineAdapter:
    """A Pipeline, which can start at any example."""

    open_epochs = 0
    batches_are_global = True
    passes_end = False

    def __init__(
        self,
        pipeline: Pipeline,
        sharding: Sharding,
        batch_size: BatchSize,
        *,
        seed: int = 0,
        most_batches: int | None = None,
    ) -> None:
        self._pipeline = pipeline
        self._sharding = sharding
        self._seed = seed
        self._most_batches = most_batches
        self.batch_size = batch_size
        self.reads_in_python = not isinstance(pipeline.source, Arrays)

    @property
    def element_spec(self) -> Any:
        """Return the structure of one batch of this process."""
        return self._pipeline.element_spec(self._sharding.shard(self.batch_size.total or 0))

    @property
    def batches_per_pass(self) -> int | None:
        """Return the whole batches in one pass."""
        if self._pipeline.size is None or not self.batch_size.total:
            return None
        return self._pipeline.size // self.batch_size.total

    def batches_before(self, position: DataPosition) -> int:
        """Return how many batches of today's size were read."""
        return position.examples // (self.batch_size.total or 1)

    @property
    def fingerprint(self) -> str:
        """Return the number of examples."""
        return f"{self._pipeline.size} examples"

    def unread(self, position: DataPosition) -> int:
        """Return 0: `dataset(position)` begins there."""
        del position
        return 0

    def dataset(self, position: DataPosition) -> Any:
        """Return infinite batches for the replicas of this process."""
        import tensorflow as tf

        shard = self._sharding.shard(self.batch_size.total or 0)
        batches = self._pipeline.training(shard, self._seed, position.read)
        return split_own_for_replicas(batches, self._sharding.local_replicas).prefetch(tf.data.AUTOTUNE)

    def server_dataset(self, workers: int, index: int, position: DataPosition) -> Any:
        """Return infinite batches of the global batch size, for one server; servers do not wait for each other."""
        total = self.batch_size.total or 0
        read = (ReadSpan(workers, position.examples - position.examples % workers),)
        return self._pipeline.training(Shard(workers, index, total, total * workers), self._seed, read)

    def evaluation_dataset(self) -> Any:
        """Return the share of this process, each example once."""
        sharding, total = self._sharding, self.batch_size.total
        shard = (
            sharding.shard(total)
            if total
            else Shard(sharding.workers, sharding.rank, EVALUATION_BATCH, EVALUATION_BATCH)
        )
        return without_autotune(self._pipeline.validation(shard).take(self._most_batches or -1))
