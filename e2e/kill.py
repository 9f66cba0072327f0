"""Kills the training process of a pod: no signal handler runs, PID 1 survives."""

import os
import signal
import time
from typing import Any

from e2e import containers
from e2e.cluster import Cluster
from e2e.failure import Failure

INSIDE = """
import os, signal
parents = {}
for entry in filter(str.isdigit, os.listdir("/proc")):
    try:
        parents[int(entry)] = int(open(f"/proc/{entry}/stat").read().rpartition(")")[2].split()[1])
    except OSError:
        pass
trains = [pid for pid, parent in parents.items() if pid != os.getpid() and parents.get(parent, 0) == 1]
trains = min(trains)
os.kill(trains, signal.SIGKILL)
print(trains)
"""
"""Runs in a pod on another machine: kills the oldest child of the zygote, which is a child of PID 1."""


def kill_training(cluster: Cluster, pod: dict[str, Any]) -> tuple[float, int]:
    """Send SIGKILL to the training process of a pod; returns when (time.monotonic()), and its pid in the container."""
    name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
    family = containers.processes(pod["metadata"]["uid"])
    if not family:
        answer = cluster.kubectl("exec", "-n", namespace, name, "--", "python3", "-c", INSIDE)
        return time.monotonic(), int(answer)
    target = containers.training_process(family)
    if target is None:
        raise Failure(f"Pod {name} has no training process at this moment; its processes: {family}.")
    at = time.monotonic()
    os.kill(target.pid, signal.SIGKILL)
    return at, target.inner
