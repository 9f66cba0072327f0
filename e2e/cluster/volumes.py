"""Shared storage: a ReadWriteMany claim over a directory that every node sees. Pure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

STORAGE_CLASS = "dtj-shared"
TRAINER_UID = 65532
"""The non-root user of the images; the directory is open to any other user id as well."""

MODE = 0o1777
SIZE = "100Gi"


def storage_class() -> dict[str, Any]:
    """Return a class without provisioner: its volumes are created together with their claims."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": STORAGE_CLASS},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "Immediate",
    }


def volume(namespace: str, name: str, directory: Path) -> dict[str, Any]:
    """Return the volume behind a claim, reserved for it."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"{namespace}-{name}"},
        "spec": {
            "capacity": {"storage": SIZE},
            "accessModes": ["ReadWriteMany"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": STORAGE_CLASS,
            "hostPath": {"path": str(directory), "type": "Directory"},
            "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": namespace, "name": name},
        },
    }


def claim(namespace: str, name: str, *, storage_class: str = STORAGE_CLASS, bound_to: str = "") -> dict[str, Any]:
    """Return a ReadWriteMany claim, for the volume `bound_to` where one is named."""
    spec: dict[str, Any] = {
        "accessModes": ["ReadWriteMany"],
        "resources": {"requests": {"storage": SIZE if bound_to else "1Gi"}},
    }
    if storage_class:
        spec["storageClassName"] = storage_class
    if bound_to:
        spec["volumeName"] = bound_to
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }
