"""How the main container of a pod ended, and whether that is a success."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dtj_operator.reconcile.state.snapshot import Container, Pod, Terminated


def ended(pod: Pod, main: str) -> Terminated | None:
    """How the pod's main container ended, if it has; for a failed pod whose main container
    never ran, how the container ended that stands for it (an init container, for instance).
    """
    container = _named(pod, main)
    if container and container.terminated:
        return container.terminated
    if pod.phase == "Failed":
        for other in pod.containers:
            if other.terminated and other.terminated.exit_code:
                return other.terminated
    return None


def succeeded(pod: Pod, main: str) -> bool:
    """Whether the main container is done: exit code 0, whatever any reason field says."""
    container = _named(pod, main)
    if container and container.terminated:
        return container.terminated.exit_code == 0
    return pod.phase == "Succeeded"


def _named(pod: Pod, name: str) -> Container | None:
    for container in pod.containers:
        if container.name == name:
            return container
    return None
