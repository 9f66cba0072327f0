"""TF_CONFIG of a pod: the addresses of the cluster, and the task of this pod.

The format is that of `tf.distribute.cluster_resolver.TFConfigClusterResolver`. An evaluator gets
the same cluster as all others and is not part of it, as TensorFlow expects.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING

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
    counts = ((role, job.spec.replicas(role)) for role in TRAINING_ROLES)
    sizes = tuple((role, count, _port(job, role)) for role, count in counts if count)
    cluster = _cluster_json(job.name, job.namespace, job.spec.cluster_domain, sizes)
    return f'{{"cluster":{cluster},"task":{{"type":"{role}","index":{index}}}}}'


@lru_cache(maxsize=CACHE_SIZE)
def _cluster_json(job: str, namespace: str, domain: str, sizes: tuple[tuple[Role, int, int], ...]) -> str:
    addresses = {
        str(role): [pod_address(job, namespace, domain, role, index, where) for index in range(count)]
        for role, count, where in sizes
    }
    return json.dumps(addresses, separators=(",", ":"))


def _port(job: Job, role: Role) -> int:
    return tensorflow_port(main_container(job.spec, job.spec.replica_specs[role].template))
