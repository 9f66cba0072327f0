"""The division of examples and batches among processes and replicas."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class BatchSize:
    """The size of one global batch, in examples."""

    total: int | None
    """None where the dataset decides."""
    given: int | None
    """`batch_size` as the caller gave it; None if it gave the per-replica one, none, or batches."""


@dataclass(frozen=True, slots=True)
class Shard:
    """The part of the data that process `index` of `count` reads: `batch` examples of each `global_batch`."""

    count: int
    index: int
    batch: int
    global_batch: int


@dataclass(frozen=True, slots=True)
class Sharding:
    """The number of processes that share the data, the rank of this one, and the number of all replicas."""

    workers: int
    rank: int
    replicas: int

    @property
    def local_replicas(self) -> int:
        """The number of replicas in this process."""
        return max(1, self.replicas // self.workers)

    @property
    def first_replica(self) -> int:
        """The number of the first replica of this process among all."""
        return self.rank * self.local_replicas

    def shard(self, global_batch: int) -> Shard:
        """Return the shard of this process for batches of that size."""
        return Shard(self.workers, self.rank, global_batch // self.workers, global_batch)

    def input_context(self) -> Any:
        """Return the same as a `tf.distribute.InputContext`."""
        import tensorflow as tf

        return tf.distribute.InputContext(self.workers, self.rank, self.replicas)
