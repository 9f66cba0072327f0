"""The main container of a pod template, its TensorFlow port and its GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dtj_operator.api.constants import DEFAULT_MAIN_CONTAINER, DEFAULT_PORT, GPU_RESOURCES, PORT_NAME

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dtj_operator.api.enums import Role
    from dtj_operator.api.job import Job
    from dtj_operator.api.spec import JobSpec


def containers(template: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the containers of a pod template, without init containers."""
    return (template.get("spec") or {}).get("containers") or []


def main_container_index(spec: JobSpec, template: Mapping[str, Any]) -> int:
    """Return the position of the main container in its template.

    It is the container named by `spec.mainContainer`, else the one named tensorflow, else the first.
    """
    names = [container.get("name") for container in containers(template)]
    for wanted in (spec.main_container, DEFAULT_MAIN_CONTAINER):
        if wanted and wanted in names:
            return names.index(wanted)
    return 0


def main_container(spec: JobSpec, template: Mapping[str, Any]) -> dict[str, Any]:
    """Return the main container of a template; empty if the template has no container."""
    found = containers(template)
    return found[main_container_index(spec, template)] if found else {}


def main_container_name(job: Job, role: Role) -> str:
    """Return the name of the main container of a role; empty if the job has no such role."""
    replica = job.spec.replica_specs.get(role)
    if replica is None:
        return ""
    name = main_container(job.spec, replica.template).get("name")
    return str(name or "")


def tensorflow_port(container: Mapping[str, Any]) -> int:
    """Return the port of the TensorFlow server: the one named `tf`, else 2222."""
    for declared in container.get("ports") or []:
        if declared.get("name") == PORT_NAME:
            return int(declared.get("containerPort") or DEFAULT_PORT)
    return DEFAULT_PORT


def gpu_count(container: Mapping[str, Any]) -> int:
    """Return the GPU limit of a container."""
    limits = (container.get("resources") or {}).get("limits") or {}
    return sum(_whole(limits.get(resource)) for resource in GPU_RESOURCES)


def pod_gpu_count(template: Mapping[str, Any]) -> int:
    """Return the sum of the GPU limits of all containers of a pod."""
    return sum(gpu_count(container) for container in containers(template))


def _whole(quantity: object) -> int:
    """Parse a quantity of whole devices; anything else counts as 0 (the API server refuses that pod)."""
    try:
        return int(str(quantity)) if quantity is not None else 0
    except ValueError:
        return 0
