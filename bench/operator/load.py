"""The jobs that the measurements use: many equal ones of five workers, or a large one. Pure."""

from __future__ import annotations

from typing import Any

from dtj_operator.api.constants import API_VERSION, KIND

WORKERS = 5
"""Pods of each of many jobs."""


def job(name: str, workers: int = WORKERS) -> dict[str, Any]:
    """Return a MultiWorkerMirrored job as a user would write it; failed pods are replaced without backoff."""
    container = {
        "name": "tensorflow",
        "image": "registry.example/team/train:1",
        "args": ["train.py", "--epochs=12"],
        "env": [{"name": "TF_CPP_MIN_LOG_LEVEL", "value": "1"}],
        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "1Gi"}},
        "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
    }
    template = {
        "metadata": {"labels": {"team": "bench"}},
        "spec": {"containers": [container], "volumes": [{"name": "scratch", "emptyDir": {}}]},
    }
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": name},
        "spec": {
            "replicaSpecs": {"worker": {"replicas": workers, "restartPolicy": "OnFailure", "template": template}},
            "successPolicy": {"type": "AllWorkers"},
            "failurePolicy": {"maxRestarts": 1000, "backoff": {"initialSeconds": 0}},
            "checkpoint": {"directory": "/checkpoints"},
        },
    }


def names(count: int, prefix: str = "job") -> list[str]:
    """Return the names of `count` jobs."""
    return [f"{prefix}-{number:05d}" for number in range(count)]


def ended(exit_code: int) -> dict[str, Any]:
    """Return the status of a pod whose container has ended, as a kubelet reports it."""
    terminated = {"exitCode": exit_code, "reason": "Error" if exit_code else "Completed"}
    return {
        "phase": "Failed" if exit_code else "Succeeded",
        "conditions": [{"type": "Ready", "status": "False", "reason": "PodFailed" if exit_code else "PodCompleted"}],
        "containerStatuses": [
            {
                "name": "tensorflow",
                "image": "registry.example/team/train:1",
                "imageID": "",
                "ready": False,
                "restartCount": 0,
                "state": {"terminated": terminated},
            }
        ],
    }
