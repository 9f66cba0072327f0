"""The network policy of one job: nobody else reaches its TensorFlow ports, where whoever connects runs code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dtj_operator.api.constants import LABEL_JOB_UID
from dtj_operator.api.trainer_contract import PORT
from dtj_operator.builders.metadata import object_metadata

if TYPE_CHECKING:
    from dtj_operator.api.job import Job


def build_network_policy(job: Job) -> dict[str, Any]:
    """Lets in the job's own pods everywhere, and everybody at the trainers' HTTP port (status, metrics).

    Policies add up: another one may open more ports of the same pods.
    """
    own = {"matchLabels": {LABEL_JOB_UID: job.uid}}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": object_metadata(job),
        "spec": {
            "podSelector": own,
            "policyTypes": ["Ingress"],
            "ingress": [{"from": [{"podSelector": own}]}, {"ports": [{"protocol": "TCP", "port": PORT}]}],
        },
    }
