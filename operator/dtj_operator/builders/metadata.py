"""Names, labels, owner references and addresses of the objects of a job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dtj_operator.api.constants import (
    API_VERSION,
    KIND,
    LABEL_ATTEMPT,
    LABEL_INDEX,
    LABEL_JOB_NAME,
    LABEL_JOB_UID,
    LABEL_ROLE,
)
from dtj_operator.api.enums import Role

if TYPE_CHECKING:
    from dtj_operator.api.job import Job


def pod_name(job: str, role: str, index: int) -> str:
    """Return `<job>-<role>-<index>`, which has at most 40 + 1 + 9 + 1 + 6 characters."""
    return f"{job}-{role}-{index}"


def job_labels(job: Job) -> dict[str, str]:
    """Return the labels of all objects of a job."""
    return {LABEL_JOB_NAME: job.name, LABEL_JOB_UID: job.uid}


def pod_labels(job: Job, role: Role, index: int, attempt: int) -> dict[str, str]:
    """Return the labels of one pod."""
    return job_labels(job) | {
        LABEL_ROLE: str(role),
        LABEL_INDEX: str(index),
        LABEL_ATTEMPT: str(attempt),
    }


def worker_selector(job: Job) -> str:
    """Return the label selector of the worker pods, for the scale subresource."""
    return f"{LABEL_JOB_UID}={job.uid},{LABEL_ROLE}={Role.WORKER}"


def owner_reference(job: Job) -> dict[str, Any]:
    """Return the reference to the job as controller: the garbage collector deletes the object with the job."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "name": job.name,
        "uid": job.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def object_metadata(job: Job) -> dict[str, Any]:
    """Return the metadata of an object that each job has once, under the name of the job."""
    return {
        "name": job.name,
        "namespace": job.namespace,
        "labels": job_labels(job),
        "ownerReferences": [owner_reference(job)],
    }


def pod_host(job: str, namespace: str, domain: str, role: str, index: int) -> str:
    """Return the host name of the pod; `domain`, the DNS domain of the cluster, may be empty."""
    return f"{pod_name(job, role, index)}.{job}.{namespace}.svc{f'.{domain}' if domain else ''}"


def pod_address(job: str, namespace: str, domain: str, role: str, index: int, port: int) -> str:
    """Return host and port of the pod's TensorFlow server."""
    return f"{pod_host(job, namespace, domain, role, index)}:{port}"
