"""Cloud TPUs: a process drives the cores of its host or, as the chief, those of a slice through workers that serve."""

import os
from collections.abc import Mapping

from dtj_trainer.cluster.accelerators import tpu_there
from dtj_trainer.cluster.environment import Environment
from dtj_trainer.cluster.probes import await_servers
from dtj_trainer.cluster.tf_config import TfConfig
from dtj_trainer.compat.types import Strategy
from dtj_trainer.errors import PreflightFailed
from dtj_trainer.exit_status import error_text

NEXT_STEP = "run it on a node with TPUs and the image that has tensorflow-tpu, or choose another strategy"


def serves(environment: Environment) -> bool:
    """Return whether this process serves on a host of a slice instead of running the program."""
    return environment.role == "worker" and environment.members("chief") > 0


def address(env: Mapping[str, str], config: TfConfig) -> str | None:
    """Return the `tpu` argument of the cluster resolver; None without any TPU.

    It is `local` for the chips of this host, the workers' addresses in a chief, or the name that the user gave.

    A name is never guessed: the resolver would query a metadata server, which takes minutes where there is none.
    """
    if env.get("TPU_NAME"):
        return env["TPU_NAME"]
    if config.task.role == "chief" and config.serving_tasks:
        return ",".join(f"grpc://{config.address(task)}" for task in config.serving_tasks)
    return "local" if tpu_there(env) else None


def build(environment: Environment) -> Strategy:
    """Wait for the hosts of the slice, connect, initialise the system, and build the strategy.

    Raises:
        PreflightFailed: there is no TPU, or it does not answer.
        PeersNotReady: a host of the slice does not serve within the start time.
    """
    name = address(os.environ, environment.tf_config)
    if name is None:
        raise PreflightFailed(f"the TPU strategy was asked for and there is no TPU here; {NEXT_STEP}")
    if name.startswith("grpc://") and environment.members("worker"):
        await_servers(environment.tf_config, environment.start_seconds)
    import tensorflow as tf

    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(name)
        if name != "local":
            tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
        return tf.distribute.TPUStrategy(resolver)
    except (tf.errors.OpError, OSError, ValueError, IndexError) as error:
        reason = error_text(error)[:160]
        raise PreflightFailed(f"the TPU {name!r} cannot be used ({reason}); {NEXT_STEP}") from error
