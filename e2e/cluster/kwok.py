"""Fake nodes, simulated by kwok; their pods run at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from e2e.cluster import binaries, component_commands
from e2e.cluster.api_client import ApiClient
from e2e.cluster.machine import Machine, last_log_line
from e2e.cluster.wait import wait_until

ANNOTATION = "kwok.x-k8s.io/node"
ROOM = {"cpu": "1k", "memory": "4Ti", "pods": "10k"}
READY_LIMIT = 60.0


def node(name: str) -> dict[str, Any]:
    """Return a fake node with room for ten thousand pods and no taints."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {ANNOTATION: "fake"},
            "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "type": "kwok"},
        },
        "status": {"allocatable": ROOM, "capacity": ROOM, "nodeInfo": {"kubeletVersion": binaries.KUBERNETES}},
    }


def start(host: Machine, programs: dict[str, Path], api: ApiClient, config: Path, count: int) -> list[str]:
    """Start scheduler and kwok on `host`, and `count` nodes; returns their names once all are Ready."""
    scheduling = component_commands.scheduler(programs["kube-scheduler"], config)
    host.start("kube-scheduler", *scheduling, "--secure-port=0")
    host.start(
        "kwok",
        programs["kwok"],
        f"--kubeconfig={config}",
        "--manage-all-nodes=false",
        f"--manage-nodes-with-annotation-selector={ANNOTATION}=fake",
        "--node-lease-duration-seconds=40",
    )
    names = [f"fake-{index}" for index in range(count)]
    for name in names:
        api.create("/api/v1/nodes", node(name))
    wait_until(
        lambda: all(_ready(api.get(f"/api/v1/nodes/{name}")) for name in names),
        READY_LIMIT,
        lambda: f"kwok's nodes are not ready after {READY_LIMIT:.0f} s: {last_log_line(host.log('kwok'))}",
        pause=0.2,
    )
    return names


def _ready(found: dict[str, Any]) -> bool:
    conditions = found.get("status", {}).get("conditions", [])
    return any(entry["type"] == "Ready" and entry["status"] == "True" for entry in conditions)
