"""How the main container of a pod ended, and whether that is a success."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dtj_operator.reconcile.state.snapshot import Container, Pod, Terminated


def find_container(pod: Pod, name: str) -> Container | None:
    """Return the pod's container of that name."""
    for container in pod.containers:
        if container.name == name:
            return container
    return None


def find_termination(pod: Pod, main: str) -> Terminated | None:
    """Return how the pod's main container ended, if it has.

    Where the main container of a failed pod never ran, how the container ended that stands for it: an init container,
    for instance.
    """
    container = find_container(pod, main)
    if container and container.terminated:
        return container.terminated
    if pod.phase == "Failed":
        for other in pod.containers:
            if other.terminated and other.terminated.exit_code:
                return other.terminated
    return None


def has_succeeded(pod: Pod, main: str) -> bool:
    """Whether the main container is done: exit code 0, whatever any reason field says."""
    container = find_container(pod, main)
    if container and container.terminated:
        return container.terminated.exit_code == 0
    return pod.phase == "Succeeded"
