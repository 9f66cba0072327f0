"""The adapter of Pipelines, for training and validation."""

from typing import Any

from dtj_trainer.data.adapters.batch_split import without_autotune
from dtj_trainer.data.pipeline import Pipeline
from dtj_trainer.data.position import DataPosition, ReadSpan
from dtj_trainer.data.sharding import BatchSize, Shard, Sharding
from dtj_trainer.data.sources.arrays import Arrays

EVALUATION_BATCH = 128
"""Examples a process where the training's batch size is not known."""


class PipelineAdapter:
    """A Pipeline, which can start at any example."""

    def __init__(
        self, pipeline: Pipeline, sharding: Sharding, batch_size: BatchSize, *, accumulate: int = 1, seed: int = 0
    ) -> None:
        self._pipeline = pipeline
        self._sharding = sharding
        self._accumulate = accumulate
        self._seed = seed
        self.batch_size = batch_size
        self.reads_in_python = not isinstance(pipeline.source, Arrays)

    @property
    def element_spec(self) -> Any:
        """Return the structure of one batch of this process."""
        return self._pipeline.element_spec(self._sharding.shard(self.batch_size.total or 0))

    @property
    def steps_per_epoch(self) -> int | None:
        """Return the whole steps in one pass."""
        if self._pipeline.size is None or not self.batch_size.total:
            return None
        return self._pipeline.size // (self.batch_size.total * self._accumulate)

    @property
    def fingerprint(self) -> str:
        """Return the number of examples."""
        return f"{self._pipeline.size} examples"

    def dataset(self, position: DataPosition) -> Any:
        """Return infinite batches of this process."""
        import tensorflow as tf

        shard = self._sharding.shard(self.batch_size.total or 0)
        return self._pipeline.training(shard, self._seed, position.read).prefetch(tf.data.AUTOTUNE)

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
        return without_autotune(self._pipeline.validation(shard))
