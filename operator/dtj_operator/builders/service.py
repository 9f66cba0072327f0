"""The headless service of one job, which gives each pod a DNS name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dtj_operator.api.constants import DEFAULT_PORT, LABEL_JOB_UID, PORT_NAME
from dtj_operator.builders.metadata import object_metadata

if TYPE_CHECKING:
    from dtj_operator.api.job import Job


def build_service(job: Job) -> dict[str, Any]:
    """Build the service. It selects by the job's UID, which excludes pods of an earlier job of the same name.

    Addresses are published before readiness, because peers have to find each other to become ready.
    """
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": object_metadata(job),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {LABEL_JOB_UID: job.uid},
            "ports": [{"name": PORT_NAME, "port": DEFAULT_PORT, "targetPort": PORT_NAME}],
        },
    }
