"""TF_CONFIG of a pod: the addresses of the cluster, and the task of this pod.

The format is that of `tf.distribute.cluster_resolver.TFConfigClusterResolver`. An evaluator gets
the same cluster as all others and is not part of it, as TensorFlow expects.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING

from dtj_operator.api.constants import TF_CONFIG_MAX
from dtj_operator.api.enums import TRAINING_ROLES, Role
from dtj_operator.builders.main_container import main_container, tensorflow_port
from dtj_operator.builders.metadata import pod_address

if TYPE_CHECKING:
    from dtj_operator.api.job import Job

CACHE_SIZE = 32
"""Clusters that are cached: all pods of a job have the same one, and it may be large."""


def has_cluster(job: Job) -> bool:
    """Tell whether the job has more than one pod, so that its pods need TF_CONFIG."""
    return sum(replica.replicas for replica in job.spec.replica_specs.values()) > 1


def tf_config(job: Job, role: Role, index: int) -> str:
    """Return the JSON for one pod."""
    cluster = _cluster_json(job.name, job.namespace, job.spec.cluster_domain, cluster_sizes(job))
    return _with_task(cluster, role, index)


def tf_config_problem(job: Job) -> str:
    """Return one sentence if TF_CONFIG is longer than one environment string may be; empty when it fits.

    Counts without making it: that of a job which is refused may have megabytes.
    """
    if not has_cluster(job):
        return ""
    size = _longest(job)
    if size <= TF_CONFIG_MAX:
        return ""
    addresses = (
        pod_address(job.name, job.namespace, job.spec.cluster_domain, role, count - 1, port)
        for role, count, port in cluster_sizes(job)
    )
    longest = max(addresses, key=len)
    return (
        f"TF_CONFIG would have {size:,} bytes, and an environment string holds {TF_CONFIG_MAX:,}: its longest name is "
        f"{longest} ({len(longest)} characters). Shorten the job's name, its namespace or clusterDomain, which are "
        "part of every address, or ask for fewer replicas"
    )


def _longest(job: Job) -> int:
    """Return the length of the longest TF_CONFIG of the job's pods."""
    domain = job.spec.cluster_domain
    cluster = len("{}")
    for role, count, port in cluster_sizes(job):
        first = len(json.dumps(pod_address(job.name, job.namespace, domain, role, 0, port)))
        # The first address has one digit of index; each is followed by a comma or the closing bracket.
        cluster += len(f'"{role}":[,') + count * first + count + _digits(count) - count
    cluster -= len(",")
    tasks = ((role, spec.replicas - 1) for role, spec in job.spec.replica_specs.items() if spec.replicas)
    return cluster + max(len(_with_task("", role, index)) for role, index in tasks)


def _digits(count: int) -> int:
    """Return the number of digits of 0, 1, … count - 1 together."""
    return count + sum(count - power for power in (10, 100, 1000, 10_000, 100_000) if count > power)


def _with_task(cluster: str, role: Role, index: int) -> str:
    return f'{{"cluster":{cluster},"task":{{"type":"{role}","index":{index}}}}}'


def cluster_sizes(job: Job) -> tuple[tuple[Role, int, int], ...]:
    """Return role, replicas and port of each role that is part of the cluster."""
    counts = ((role, job.spec.replicas(role)) for role in TRAINING_ROLES)
    return tuple((role, count, _port(job, role)) for role, count in counts if count)


@lru_cache(maxsize=CACHE_SIZE)
def _cluster_json(job: str, namespace: str, domain: str, sizes: tuple[tuple[Role, int, int], ...]) -> str:
    addresses = {
        str(role): [pod_address(job, namespace, domain, role, index, where) for index in range(count)]
        for role, count, where in sizes
    }
    return json.dumps(addresses, separators=(",", ":"))


def _port(job: Job, role: Role) -> int:
    return tensorflow_port(main_container(job.spec, job.spec.replica_specs[role].template))
