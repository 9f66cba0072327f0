"""The environment variables that the operator sets in the main container."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from dtj_operator.api.trainer_contract import Environment
from dtj_operator.builders.keras_distribution import keras_distribution
from dtj_operator.builders.main_container import gpu_count
from dtj_operator.builders.strategy_choice import choose_strategy
from dtj_operator.builders.tf_config import has_cluster, tf_config
from dtj_operator.builders.tpu_slice import tpu_environment, tpu_variable_names

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from dtj_operator.api.enums import Role, StrategyType
    from dtj_operator.api.job import Job
    from dtj_operator.api.spec import Checkpoint, Strategy

TF_CONFIG = "TF_CONFIG"
CACHE_SIZE = 128
"""JSON texts that are cached: they are the same for all pods of a job, and often for many jobs."""


def strategy_json(job: Job) -> str:
    """Return `spec.strategy` as JSON, with the chosen type instead of Auto."""
    return _cached_strategy_json(job.spec.strategy, choose_strategy(job.spec).type)


def checkpoint_json(job: Job) -> str:
    """Return `spec.checkpoint` as JSON."""
    return _cached_checkpoint_json(job.spec.checkpoint)


def environment_variables(
    job: Job, role: Role, index: int, attempt: int, container: Mapping[str, Any]
) -> dict[str, str]:
    """Return the operator's variables by name; TF_CONFIG is one of them if the job has more than one pod.

    Those of keras.distribution are among them unless the container sets them.
    """
    values = {
        Environment.JOB: job.name,
        Environment.UID: job.uid,
        Environment.NAMESPACE: job.namespace,
        Environment.ROLE: str(role),
        Environment.INDEX: str(index),
        Environment.ATTEMPT: str(attempt),
        Environment.STRATEGY: strategy_json(job),
        Environment.CHECKPOINT: checkpoint_json(job),
        Environment.GPUS: str(gpu_count(container)),
    }
    result = {str(name): value for name, value in values.items()}
    if has_cluster(job):
        result[TF_CONFIG] = tf_config(job, role, index)
    result |= tpu_environment(job, role, index)
    given = {entry.get("name") for entry in container.get("env") or ()}
    return result | {name: value for name, value in keras_distribution(job, role, index).items() if name not in given}


def variable_names(job: Job, role: Role) -> set[str]:
    """Return the names of the variables that a template of this role cannot set."""
    of_cluster = {TF_CONFIG} if has_cluster(job) else set()
    return {*map(str, Environment)} | of_cluster | tpu_variable_names(job, role)


def merge_environment(
    template: list[dict[str, Any]] | None, operator: Mapping[str, str], reserved: Collection[str]
) -> list[dict[str, Any]]:
    """Return the operator's variables, then those of the template that have other names, and no reserved one.

    In this order the variables of the template can refer to the operator's by `$(NAME)`.
    """
    left_out = {*operator, *reserved}
    kept = [entry for entry in template or [] if entry.get("name") not in left_out]
    return [{"name": name, "value": value} for name, value in operator.items()] + kept


@lru_cache(maxsize=CACHE_SIZE)
def _cached_strategy_json(strategy: Strategy, chosen: StrategyType) -> str:
    block = strategy.model_dump(mode="json", by_alias=True, exclude_none=True)
    return _json(block | {"type": str(chosen)})


@lru_cache(maxsize=CACHE_SIZE)
def _cached_checkpoint_json(checkpoint: Checkpoint) -> str:
    return _json(checkpoint.model_dump(mode="json", by_alias=True))


def _json(block: Mapping[str, Any]) -> str:
    return json.dumps(block, separators=(",", ":"))
