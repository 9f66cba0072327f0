"""Several processes, each with a full copy of the model; gradients are summed by collectives."""

import json
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dtj_trainer.cluster.environment import Environment
from dtj_trainer.cluster.tf_config import TRAINING_ROLES
from dtj_trainer.errors import PreflightFailed
from dtj_trainer.strategy import initial_values
from dtj_trainer.strategy.choose import Choice

REGISTER_SECONDS = 900


def build(choice: Choice, environment: Environment) -> Any:
    """The strategy over all processes; blocks until all of them have come.

    Call it only when every peer's name resolves and the leader's port answers.
    """
    import tensorflow as tf

    options = _communication(tf, choice)
    with _training_roles_only(environment), _devices(environment.devices.logical_devices):
        _quick_heartbeats(environment)
        strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)
    initial_values.collect(strategy)
    return strategy


def _communication(tf: Any, choice: Choice) -> Any:
    told = choice.options.get("communication") or {}
    name = str(told.get("implementation") or "Auto")
    if name == "NCCL" and not tf.config.list_physical_devices("GPU"):
        raise PreflightFailed("NCCL needs GPUs and there is none here; use Auto or Ring")
    kinds = tf.distribute.experimental.CommunicationImplementation
    known = {"Auto": kinds.AUTO, "Ring": kinds.RING, "NCCL": kinds.NCCL}
    if name not in known:
        raise PreflightFailed(f"communication.implementation {name!r} is unknown; use Auto, Ring or NCCL")
    return tf.distribute.experimental.CommunicationOptions(
        bytes_per_pack=int(told.get("bytesPerPack") or 0),
        timeout_seconds=float(told.get("timeoutSeconds") or 0) or None,
        implementation=known[name],
    )


@contextmanager
def _training_roles_only(environment: Environment) -> Iterator[None]:
    """TF_CONFIG with chief and workers alone: a `ps` in the cluster makes this strategy wait for ever."""
    before = os.environ.get("TF_CONFIG")
    cluster = {r: list(a) for r, a in environment.tf_config.cluster.items() if r in TRAINING_ROLES}
    if before and cluster:
        task = {"type": environment.role, "index": environment.index}
        os.environ["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": task})
    try:
        yield
    finally:
        if before is not None:
            os.environ["TF_CONFIG"] = before


@contextmanager
def _devices(logical_cpus: int | None) -> Iterator[None]:
    """A replica on each logical CPU: by itself the strategy takes all GPUs, else one CPU, and has no setting for it."""
    if logical_cpus is None:
        yield
        return
    from tensorflow.python.distribute.collective_all_reduce_strategy import CollectiveAllReduceExtended as Extended

    theirs = Extended._initialize_local_devices  # noqa: SLF001 - no public seam

    def ours(self: Any, resolver: Any, worker: str) -> tuple[tuple[str, ...], str]:
        devices, kind = theirs(self, resolver, worker)
        if kind == "CPU":
            devices = tuple(f"{worker}/device:CPU:{number}" for number in range(logical_cpus))
        return devices, kind

    Extended._initialize_local_devices = ours  # noqa: SLF001
    try:
        yield
    finally:
        Extended._initialize_local_devices = theirs  # noqa: SLF001


def _quick_heartbeats(environment: Environment) -> None:
    """Notice a frozen or unreachable peer within `heartbeat_seconds` instead of TensorFlow's ten.

    TensorFlow has no public setting for this; where the private one is gone, its default stays.
    """
    if environment.trainers < 2:  # noqa: PLR2004 - alone, nobody has a heart to listen to
        return
    try:
        from tensorflow.compiler.xla.tsl.protobuf import coordination_config_pb2
        from tensorflow.python.eager import context

        leader = "chief" if environment.members("chief") else "worker"
        context.context().configure_coordination_service(
            service_type="standalone",
            service_leader=f"/job:{leader}/replica:0/task:0",
            heartbeat_timeout_in_ms=int(environment.heartbeat_seconds * 1000),
            cluster_register_timeout_in_ms=REGISTER_SECONDS * 1000,
            coordinated_jobs=[
                coordination_config_pb2.CoordinatedJob(name=role, num_tasks=environment.members(role))
                for role in TRAINING_ROLES
                if environment.members(role)
            ],
        )
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        warnings.warn(
            f"this TensorFlow does not take a heartbeat time ({error}); a frozen peer is noticed after its default",
            stacklevel=2,
        )
