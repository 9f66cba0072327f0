"""Which container of a template trains, and what it asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dtj_operator.api.constants import DEFAULT_MAIN_CONTAINER, DEFAULT_PORT, GPU_RESOURCES, PORT_NAME

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dtj_operator.api.enums import Role
    from dtj_operator.api.job import Job
    from dtj_operator.api.spec import JobSpec


def containers(template: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The containers of a pod template, init containers left out."""
    return (template.get("spec") or {}).get("containers") or []


def main_container_index(spec: JobSpec, template: Mapping[str, Any]) -> int:
    """Position of the main container in its template.

    `spec.mainContainer` when it is there, else the one named tensorflow, else the first.
    """
    names = [container.get("name") for container in containers(template)]
    for wanted in (spec.main_container, DEFAULT_MAIN_CONTAINER):
        if wanted and wanted in names:
            return names.index(wanted)
    return 0


def main_container(spec: JobSpec, template: Mapping[str, Any]) -> dict[str, Any]:
    """The main container of a template; empty if the template has no container at all."""
    everyone = containers(template)
    return everyone[main_container_index(spec, template)] if everyone else {}


def main_container_name(job: Job, role: Role) -> str:
    """Name of the container whose end counts."""
    replica = job.spec.replica_specs.get(role)
    if replica is None:
        return ""
    name = main_container(job.spec, replica.template).get("name")
    return str(name or "")


def tensorflow_port(container: Mapping[str, Any]) -> int:
    """The port for TensorFlow: the one named `tf`, else 2222."""
    for declared in container.get("ports") or []:
        if declared.get("name") == PORT_NAME:
            return int(declared.get("containerPort") or DEFAULT_PORT)
    return DEFAULT_PORT


def gpu_count(container: Mapping[str, Any]) -> int:
    """How many GPUs a container is limited to."""
    limits = (container.get("resources") or {}).get("limits") or {}
    return sum(_whole(limits.get(resource)) for resource in GPU_RESOURCES)


def pod_gpu_count(template: Mapping[str, Any]) -> int:
    """How many GPUs all containers of a pod are limited to."""
    return sum(gpu_count(container) for container in containers(template))


def _whole(quantity: object) -> int:
    """A quantity of whole devices; what is none counts as 0 (the API server refuses the pod)."""
    try:
        return int(str(quantity)) if quantity is not None else 0
    except ValueError:
        return 0
