"""ParameterServer: variables are on `ps`, workers compute, and this process, the chief, schedules the steps."""

import os
from typing import Any

from dtj_trainer.cluster.environment import Environment
from dtj_trainer.cluster.probes import await_servers
from dtj_trainer.compat.types import Strategy
from dtj_trainer.errors import PreflightFailed
from dtj_trainer.strategy.choose import Choice

MIN_SHARD_BYTES = 256 << 10


def check(environment: Environment) -> None:
    """Refuse a cluster without the roles that this strategy needs.

    Raises:
        PreflightFailed: no chief, no worker or no ps.
    """
    for role in ("ps", "worker", "chief"):
        if not environment.members(role):
            raise PreflightFailed(
                f"ParameterServer needs a chief, workers and ps, and the cluster has no {role}; "
                f"add spec.replicaSpecs.{role}, or choose another strategy"
            )


def serves(environment: Environment) -> bool:
    """Return whether this process serves instead of running the program."""
    return environment.role in {"worker", "ps"}


def build(choice: Choice, environment: Environment) -> Strategy:
    """Return the strategy, in the chief; waits for every worker and ps: TensorFlow would wait without a message.

    Raises:
        PreflightFailed: the cluster or the partitioner is invalid.
        PeersNotReady: a server does not answer within the start time.
    """
    import tensorflow as tf

    check(environment)
    partitioner = _partitioner(choice, environment.members("ps"))
    os.environ.setdefault("GRPC_FAIL_FAST", "use_caller")
    await_servers(environment.tf_config, environment.start_seconds)
    cluster = {role: list(found) for role, found in environment.tf_config.cluster.items() if role != "evaluator"}
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec(cluster), task_type="chief", task_id=0, rpc_layer="grpc"
    )
    return tf.distribute.ParameterServerStrategy(resolver, variable_partitioner=partitioner)


def _partitioner(choice: Choice, servers: int) -> Any:
    import tensorflow as tf

    options = choice.options.get("variablePartitioner")
    if not options:
        return None
    kinds = tf.distribute.experimental.partitioners
    most = int(options.get("maxShards") or servers)
    size = int(options.get("minShardBytes") or MIN_SHARD_BYTES)
    match str(options.get("type") or "MinSize"):
        case "MinSize":
            return kinds.MinSizePartitioner(min_shard_bytes=size, max_shards=most)
        case "MaxSize":
            return kinds.MaxSizePartitioner(max_shard_bytes=size, max_shards=most)
        case "FixedShards":
            return kinds.FixedShardsPartitioner(num_shards=most)
        case name:
            raise PreflightFailed(f"variablePartitioner type {name!r} is unknown; use MinSize, MaxSize or FixedShards")
