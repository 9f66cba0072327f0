"""How the main container of a pod ended, and whether that is a success."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dtj_operator.api.trainer_contract import ExitClass
from dtj_operator.reconcile.state.snapshot import TERMINAL
from dtj_operator.reconcile.state.trainer_messages import parse_termination_message

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


def still_runs(pod: Pod, main: str) -> bool:
    """Return whether neither the pod nor its main container has ended."""
    container = find_container(pod, main)
    return pod.phase not in TERMINAL and (container is None or container.terminated is None)


def says_done(pod: Pod, main: str) -> bool:
    """Return whether the main container ended with code 0, and our trainer reported that training is done."""
    container = find_container(pod, main)
    end = container.terminated if container else None
    return (
        end is not None and end.exit_code == 0 and parse_termination_message(end.message).get("class") == ExitClass.DONE
    )


def has_succeeded(pod: Pod, main: str, *, node_lost: bool = False) -> bool:
    """Return whether the main container is done. Code 0 alone does not say so.

    A failed pod has failed whatever its code, as in batch/v1, unless only another container failed. And a program that
    handles SIGTERM may end with 0 because it is stopped: it is done only if it ended before that began. Our trainer's
    word that it is done always counts.
    """
    if says_done(pod, main):
        return True
    container = find_container(pod, main)
    end = container.terminated if container else None
    if end and end.exit_code:
        return False
    if pod.phase == "Failed":
        return end is not None and not node_lost and _only_another_container_failed(pod, main)
    if (end is None and pod.phase != "Succeeded") or kubelet_undecided(pod):
        return False
    if not (pod.disruption or pod.deleted_at):
        return True
    ended, taken = end.finished_at if end else None, pod.taken_away_at
    return ended is not None and taken is not None and ended < taken


def kubelet_undecided(pod: Pod) -> bool:
    """Return whether all containers have ended with 0 and the kubelet has not said yet whether the pod failed.

    Of a pod that it evicts or that a node shutdown stops, it reports the containers' ends before the failure.
    """
    return pod.phase == "Succeeded" and not pod.over


def failed_with_code_0(pod: Pod, main: str) -> bool:
    """Return whether the pod has failed as a whole, though its main container ended with code 0."""
    container = find_container(pod, main)
    ended_with_0 = container is not None and container.terminated is not None and not container.terminated.exit_code
    return pod.phase == "Failed" and ended_with_0 and not _only_another_container_failed(pod, main)


def _only_another_container_failed(pod: Pod, main: str) -> bool:
    """Return whether the pod is Failed only because a container beside the main one failed."""
    others = (one for one in pod.containers if one.name != main and not one.init)
    failed = any(one.terminated and one.terminated.exit_code for one in others)
    return failed and not (pod.reason or pod.disruption or pod.deleted_at)
