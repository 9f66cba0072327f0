"""The automatic choice of the tf.distribute strategy of a job, with its reason."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dtj_operator.api.enums import Role, StrategyType
from dtj_operator.api.status import StrategyChoice
from dtj_operator.builders.main_container import pod_gpu_count

if TYPE_CHECKING:
    from dtj_operator.api.spec import JobSpec


def choose_strategy(spec: JobSpec) -> StrategyChoice:
    """Return the type in the spec, or for Auto a choice by roles, pods and GPUs.

    With spec.tpu: TPU. Any ps: ParameterServer. More than one chief and worker pod: MultiWorkerMirrored. One pod
    with more than one GPU: Mirrored. Else OneDevice.
    """
    wanted = spec.strategy.type
    if wanted is not StrategyType.AUTO:
        return StrategyChoice(type=wanted, reason="set in spec.strategy.type")
    if spec.tpu is not None:
        hosts = _count(spec.tpu.hosts, "host")
        return StrategyChoice(type=StrategyType.TPU, reason=f"spec.tpu: {spec.tpu.topology}, {hosts}")
    ps, chiefs, workers = (spec.replicas(role) for role in (Role.PS, Role.CHIEF, Role.WORKER))
    if ps:
        return StrategyChoice(type=StrategyType.PARAMETER_SERVER, reason=_count(ps, "ps pod"))
    if chiefs + workers > 1:
        parts = [_count(number, noun) for number, noun in ((chiefs, "chief pod"), (workers, "worker pod")) if number]
        return StrategyChoice(type=StrategyType.MULTI_WORKER_MIRRORED, reason=" and ".join(parts))
    replica = spec.replica_specs.get(Role.CHIEF if chiefs else Role.WORKER)
    devices = pod_gpu_count(replica.template) if replica else 0
    if devices > 1:
        return StrategyChoice(type=StrategyType.MIRRORED, reason=f"one pod with {devices} GPUs")
    with_devices = "one GPU" if devices else "no GPU"
    return StrategyChoice(type=StrategyType.ONE_DEVICE, reason=f"one pod with {with_devices}")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
