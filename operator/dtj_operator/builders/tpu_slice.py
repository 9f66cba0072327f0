"""What a pod needs that is a host of a TPU slice on GKE: node labels, chips, and the variables that libtpu reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dtj_operator.api.constants import LABEL_JOB_UID
from dtj_operator.builders.metadata import pod_host

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dtj_operator.api.enums import Role
    from dtj_operator.api.job import Job

ACCELERATOR = "cloud.google.com/gke-tpu-accelerator"
TOPOLOGY = "cloud.google.com/gke-tpu-topology"
NODE_POOL = "cloud.google.com/gke-nodepool"
CHIPS = "google.com/tpu"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
TOLERATION = {"key": CHIPS, "operator": "Exists", "effect": "NoSchedule"}
NAME = "TPU_NAME"
WORKER_ID = "TPU_WORKER_ID"
WORKER_HOSTNAMES = "TPU_WORKER_HOSTNAMES"


def is_tpu_host(job: Job, role: Role) -> bool:
    """Tell whether the pods of this role are the hosts of the job's TPU slice."""
    return role is job.spec.tpu_role


def tpu_environment(job: Job, role: Role, index: int) -> dict[str, str]:
    """Return what libtpu reads, for a host of the slice; empty for every other pod."""
    if job.spec.tpu is None or not is_tpu_host(job, role):
        return {}
    count, domain = job.spec.tpu.hosts, job.spec.cluster_domain
    names = ",".join(pod_host(job.name, job.namespace, domain, role, each) for each in range(count))
    return {WORKER_ID: str(index), WORKER_HOSTNAMES: names if count > 1 else "localhost"}


def tpu_variable_names(job: Job, role: Role) -> set[str]:
    """Return the variables that a template of a job with spec.tpu cannot set.

    TensorFlow takes TPU_NAME for the name of a TPU that it asks a cloud API about, so no pod has it.
    """
    if job.spec.tpu is None:
        return set()
    return {NAME, WORKER_ID, WORKER_HOSTNAMES} if is_tpu_host(job, role) else {NAME}


def node_labels(job: Job) -> dict[str, str]:
    """Return the labels of the nodes of the slice."""
    tpu = job.spec.tpu
    return {ACCELERATOR: tpu.accelerator, TOPOLOGY: tpu.topology} if tpu else {}


def place_on_slice(job: Job, role: Role, spec: dict[str, Any], main: dict[str, Any]) -> None:
    """Let the pod run on a node of the slice and take all chips of the node; other pods stay as they are."""
    if job.spec.tpu is None or not is_tpu_host(job, role):
        return
    spec["nodeSelector"] = (spec.get("nodeSelector") or {}) | node_labels(job)
    tolerations = spec.get("tolerations") or []
    if TOLERATION not in tolerations:
        spec["tolerations"] = [*tolerations, TOLERATION]
    resources = main.get("resources") or {}
    chips = {CHIPS: str(job.spec.tpu.chips_per_host)}
    main["resources"] = resources | {kind: (resources.get(kind) or {}) | chips for kind in ("limits", "requests")}
    if job.spec.tpu.hosts > 1:
        spec["affinity"] = _in_one_slice(spec.get("affinity") or {}, job.uid)


def _in_one_slice(affinity: Mapping[str, Any], uid: str) -> dict[str, Any]:
    """Return the affinity with the rule that a slice, which is a node pool, has all hosts of one job and no others."""
    own = {"topologyKey": NODE_POOL, "labelSelector": {"matchLabels": {LABEL_JOB_UID: uid}}}
    of_others = [
        {"key": LABEL_JOB_UID, "operator": "Exists"},
        {"key": LABEL_JOB_UID, "operator": "NotIn", "values": [uid]},
    ]
    others = {"topologyKey": NODE_POOL, "labelSelector": {"matchExpressions": of_others}, "namespaceSelector": {}}
    return {**affinity, **_with(affinity, "podAffinity", own), **_with(affinity, "podAntiAffinity", others)}


def _with(affinity: Mapping[str, Any], kind: str, term: Mapping[str, Any]) -> dict[str, Any]:
    given = affinity.get(kind) or {}
    return {kind: {**given, REQUIRED: [*(given.get(REQUIRED) or ()), term]}}
