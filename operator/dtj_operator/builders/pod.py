"""The pod of one replica: the template of the role, with the operator's own values in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dtj_operator.api.constants import DEFAULT_PORT, PORT_NAME
from dtj_operator.api.enums import RestartPolicy, Role
from dtj_operator.builders.environment import environment_variables, merge_environment, variable_names
from dtj_operator.builders.main_container import containers, main_container, main_container_index
from dtj_operator.builders.metadata import owner_reference, pod_labels, pod_name
from dtj_operator.builders.tpu_slice import is_tpu_host, node_labels, place_on_slice

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dtj_operator.api.job import Job
    from dtj_operator.api.spec import ReplicaSpec

CHECKPOINT_VOLUME = "dtj-checkpoint"


def build_pod(job: Job, role: str, index: int, attempt: int) -> dict[str, Any]:
    """Build the pod as it is sent to the API server.

    All fields of the template are kept, except those that the operator sets itself
    (`overridden_fields` names them).
    """
    role = Role(role)
    replica = job.spec.replica_specs[role]
    metadata = replica.template.get("metadata") or {}
    # Only what is changed below is copied; the rest is shared with the template, which nobody changes.
    spec = dict(replica.template.get("spec") or {})
    name = pod_name(job.name, role, index)

    pod_metadata: dict[str, Any] = {
        "name": name,
        "namespace": job.namespace,
        "labels": (metadata.get("labels") or {}) | pod_labels(job, role, index, attempt),
        "ownerReferences": [owner_reference(job)],
    }
    for kept in ("annotations", "finalizers"):
        if metadata.get(kept):
            pod_metadata[kept] = metadata[kept]
    spec["hostname"] = name
    spec["subdomain"] = job.name
    spec["restartPolicy"] = pod_restart_policy(replica)
    all_containers = containers(replica.template)
    if all_containers:
        position = main_container_index(job.spec, replica.template)
        main = dict(all_containers[position])
        spec["containers"] = [*all_containers[:position], main, *all_containers[position + 1 :]]
        _set_environment(job, role, index, attempt, main)
        main["ports"] = _ports(main.get("ports") or [], spec)
        _mount_checkpoints(job, spec, main)
        place_on_slice(job, role, spec, main)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": pod_metadata, "spec": spec}


def pod_restart_policy(replica: ReplicaSpec) -> str:
    """Return the restartPolicy of the pod: Always for Always; in all other cases the operator restarts."""
    return "Always" if replica.restart_policy is RestartPolicy.ALWAYS else "Never"


def overridden_fields(job: Job) -> list[str]:
    """Return the fields of the templates that the operator replaces by its own values, as `role: field`."""
    lost: list[str] = []
    for role, replica in job.spec.replica_specs.items():
        metadata = replica.template.get("metadata") or {}
        spec = replica.template.get("spec") or {}
        lost += [f"{role}: {field}" for field in ("hostname", "subdomain") if spec.get(field)]
        if spec.get("restartPolicy") not in {None, "", pod_restart_policy(replica)}:
            lost.append(f"{role}: restartPolicy {spec['restartPolicy']}")
        reserved_labels = pod_labels(job, role, 0, 0).keys()
        lost += [f"{role}: label {label}" for label in metadata.get("labels") or {} if label in reserved_labels]
        main = main_container(job.spec, replica.template)
        reserved_variables = variable_names(job, role)
        lost += [
            f"{role}: env {entry['name']}" for entry in main.get("env") or [] if entry.get("name") in reserved_variables
        ]
        selected = spec.get("nodeSelector") or {}
        nodes = node_labels(job) if is_tpu_host(job, role) else {}
        lost += [f"{role}: nodeSelector {key}" for key, value in nodes.items() if selected.get(key, value) != value]
    return lost


def _set_environment(job: Job, role: Role, index: int, attempt: int, main: dict[str, Any]) -> None:
    """Set the environment variables and the terminationMessagePolicy of the main container."""
    ours = environment_variables(job, role, index, attempt, main)
    main["env"] = merge_environment(main.get("env"), ours, variable_names(job, role))
    if not main.get("terminationMessagePolicy"):
        main["terminationMessagePolicy"] = "FallbackToLogsOnError"


def _ports(declared: list[dict[str, Any]], spec: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the ports with one that has the name that the service uses: the default port, declared or added."""
    if any(each.get("name") == PORT_NAME for each in declared):
        return declared
    named = {"name": PORT_NAME, "containerPort": DEFAULT_PORT}
    for position, each in enumerate(declared):
        tcp = each.get("protocol") in {None, "", "TCP"}
        if not tcp or each.get("containerPort") != DEFAULT_PORT:
            continue
        if not each.get("name"):
            return [*declared[:position], each | named, *declared[position + 1 :]]
        if spec.get("hostNetwork"):
            # With hostNetwork the API server refuses a port that is declared twice.
            return declared
    return [*declared, named]


def _mount_checkpoints(job: Job, spec: dict[str, Any], main: dict[str, Any]) -> None:
    """Mount the claim at the checkpoint directory, unless the template mounts something there."""
    claim, directory = job.spec.checkpoint.persistent_volume_claim, job.spec.checkpoint.directory
    mounts = main.get("volumeMounts") or []
    if not claim or not directory.startswith("/"):
        return
    if any((mount.get("mountPath") or "").rstrip("/") == directory.rstrip("/") for mount in mounts):
        return
    volumes, name = spec.get("volumes") or [], CHECKPOINT_VOLUME
    while any(volume.get("name") == name for volume in volumes):  # the template's own
        name += "-2"
    spec["volumes"] = [*volumes, {"name": name, "persistentVolumeClaim": {"claimName": claim}}]
    main["volumeMounts"] = [*mounts, {"name": name, "mountPath": directory}]
