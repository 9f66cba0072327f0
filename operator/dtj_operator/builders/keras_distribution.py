"""The variables from which `keras.distribution.initialize()` learns its cluster: it does not read TF_CONFIG.

They are for programs that build everything themselves, as Keras on JAX does.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from dtj_operator.api.enums import Role, StrategyType
from dtj_operator.builders.metadata import pod_address
from dtj_operator.builders.strategy_choice import choose_strategy
from dtj_operator.builders.tf_config import CACHE_SIZE, cluster_sizes

if TYPE_CHECKING:
    from dtj_operator.api.job import Job

ADDRESSES = "KERAS_DISTRIBUTION_JOB_ADDRESSES"
PROCESSES = "KERAS_DISTRIBUTION_NUM_PROCESSES"
PROCESS_ID = "KERAS_DISTRIBUTION_PROCESS_ID"


def keras_distribution(job: Job, role: Role, index: int) -> dict[str, str]:
    """Return the variables of a chief or worker; none where the strategy is another than None, or there is one pod.

    Ids count the chief first, then the workers by index.
    """
    sizes = tuple(size for size in cluster_sizes(job) if size[0] is not Role.PS)
    processes = sum(count for _, count, _ in sizes)
    trains = role in {Role.CHIEF, Role.WORKER}
    if not trains or processes == 1 or choose_strategy(job.spec).type is not StrategyType.NONE:
        return {}
    first = 0 if role is Role.CHIEF else job.spec.replicas(Role.CHIEF)
    addresses = _addresses(job.name, job.namespace, job.spec.cluster_domain, sizes)
    return {ADDRESSES: addresses, PROCESSES: f"{processes}", PROCESS_ID: f"{first + index}"}


@lru_cache(maxsize=CACHE_SIZE)
def _addresses(job: str, namespace: str, domain: str, sizes: tuple[tuple[Role, int, int], ...]) -> str:
    return ",".join(
        pod_address(job, namespace, domain, role, index, port) for role, count, port in sizes for index in range(count)
    )
