"""Several processes, each with a full copy of the model; gradients are summed by collectives."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dtj_trainer.cluster.environment import Environment
from dtj_trainer.cluster.probes import GENERATION
from dtj_trainer.cluster.tf_config import TRAINING_ROLES
from dtj_trainer.compat import tensorflow as compat
from dtj_trainer.compat.types import Strategy
from dtj_trainer.errors import PreflightFailed
from dtj_trainer.strategy.choose import Choice
from dtj_trainer.strategy.initial_values import InitialValues

REGISTER_SECONDS = 900
"""How long TensorFlow waits for the programs of the other processes to come to the same point."""
SUPERVISED_REGISTER_SECONDS = 7 * 24 * 3600
"""The same under `dtj-run`: what a program prepares may take any time, and the supervisors notice lost peers."""


def build(choice: Choice, environment: Environment) -> Strategy:
    """Return the strategy over all processes; blocks until all of them have called it.

    Call it only when every peer's name resolves and the leader's port answers.
    """
    options = _communication(choice)
    with _training_roles_only(environment):
        _quick_heartbeats(environment)
        return compat.multi_worker_strategy(options, InitialValues(), logical_cpus=environment.devices.logical_devices)


def _communication(choice: Choice) -> Any:
    import tensorflow as tf

    options = choice.options.get("communication") or {}
    name = str(options.get("implementation") or "Auto")
    if name == "NCCL" and not tf.config.list_physical_devices("GPU"):
        raise PreflightFailed("NCCL needs GPUs and there is none here; use Auto or Ring")
    kinds = tf.distribute.experimental.CommunicationImplementation
    known = {"Auto": kinds.AUTO, "Ring": kinds.RING, "NCCL": kinds.NCCL}
    if name not in known:
        raise PreflightFailed(f"communication.implementation {name!r} is unknown; use Auto, Ring or NCCL")
    return tf.distribute.experimental.CommunicationOptions(
        bytes_per_pack=int(options.get("bytesPerPack") or 0),
        timeout_seconds=float(options.get("timeoutSeconds") or 0) or None,
        implementation=known[name],
    )


@contextmanager
def _training_roles_only(environment: Environment) -> Iterator[None]:
    """Remove `ps` from TF_CONFIG: it would make this strategy wait without end."""
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


def _quick_heartbeats(environment: Environment) -> None:
    if environment.trainers < 2:  # noqa: PLR2004 - there is no peer
        return
    compat.configure_coordination_service(
        {role: environment.members(role) for role in TRAINING_ROLES if environment.members(role)},
        leader="chief" if environment.members("chief") else "worker",
        heartbeat_seconds=environment.heartbeat_seconds,
        register_seconds=SUPERVISED_REGISTER_SECONDS if os.environ.get(GENERATION) else REGISTER_SECONDS,
    )
