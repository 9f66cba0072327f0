"""TF_CONFIG: who is in the cluster, and which task a pod is.

Format: `tf.distribute.cluster_resolver.TFConfigClusterResolver`. The evaluator is told of the
same cluster as all others and is not part of it, as TensorFlow expects.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from dtj_operator.api.names import TRAINING_ROLES, Role
from dtj_operator.build.containers import main_container, port
from dtj_operator.build.names import address

if TYPE_CHECKING:
    from dtj_operator.api.resource import Job


def has_cluster(job: Job) -> bool:
    """Whether the job has more than one pod, so that its pods need TF_CONFIG."""
    return sum(replica.replicas for replica in job.spec.replica_specs.values()) > 1


def cluster(job: Job) -> dict[str, list[str]]:
    """Addresses by role; a role without replicas has no key."""
    return {
        str(role): [address(job, role, index, _port(job, role)) for index in range(count)]
        for role in TRAINING_ROLES
        if (count := job.spec.replicas(role))
    }


def tf_config(job: Job, role: Role, index: int) -> str:
    """The JSON for one pod."""
    return json.dumps(
        {"cluster": cluster(job), "task": {"type": str(role), "index": index}},
        separators=(",", ":"),
    )


def _port(job: Job, role: Role) -> int:
    return port(main_container(job.spec, job.spec.replica_specs[role].template))
