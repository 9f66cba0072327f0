"""The network policy of one job.

TensorFlow's servers run any code that a client sends, so only pods of the same job may connect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dtj_operator.api.constants import LABEL_JOB_UID
from dtj_operator.api.trainer_contract import PORT
from dtj_operator.builders.metadata import object_metadata

if TYPE_CHECKING:
    from dtj_operator.api.job import Job


def build_network_policy(job: Job) -> dict[str, Any]:
    """Build a policy that allows the job's own pods on all ports, and everybody on the trainer's HTTP port.

    Network policies add up: another one may open more ports of the same pods.
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
