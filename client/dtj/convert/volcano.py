"""Jobs of Volcano with its plugin `tensorflow`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dtj.convert.conversion import ROLES, Conversion, ConversionError, begin, convert_template, name_unknown

PORT = 2222
LEFT_OUT = {
    "minAvailable": "all pods are made at once, and the scheduler places each by itself",
    "queue": "there are no queues yet",
    "priorityClassName": "set template.spec.priorityClassName",
    "policies": "see failurePolicy.rules and successPolicy",
    "minSuccess": "see successPolicy",
    "runningEstimate": "nothing uses it",
}
"""Fields of a job without a counterpart, and what is so instead."""
TASK_LEFT_OUT = {
    "minAvailable": "a job is Running when all its pods are ready",
    "policies": "see failurePolicy.rules and successPolicy",
    "maxRetry": "failurePolicy.maxRestarts is the job's",
    "dependsOn": "pods start together, and the trainer waits for its peers",
    "topologyPolicy": "set resources of whole devices and CPUs",
    "partitionPolicy": "a job has no partitions",
}


def is_volcano_job(document: Mapping[str, Any]) -> bool:
    """Return whether a document is a Volcano job with the plugin `tensorflow`."""
    ours = document.get("kind") == "Job" and str(document.get("apiVersion")).startswith("batch.volcano.sh/")
    return ours and "tensorflow" in ((document.get("spec") or {}).get("plugins") or {})


def convert_volcano_job(document: Mapping[str, Any]) -> Conversion:
    """Return the job that does the same. Raises ConversionError."""
    conversion = begin(document)
    given = document.get("spec") or {}
    known = {"tasks", "plugins", "maxRetry", "ttlSecondsAfterFinished", "schedulerName", "volumes"}
    name_unknown(conversion, given, {*known, *LEFT_OUT}, "spec")
    for name, instead in LEFT_OUT.items():
        if given.get(name):
            conversion.note(f"spec.{name} is left out: {instead}.")
    for plugin in given.get("plugins") or {}:
        if plugin not in {"tensorflow", "svc", "env"}:
            conversion.note(f"spec.plugins.{plugin} has no counterpart and is left out.")
    names, port = _plugin_arguments(conversion, given["plugins"]["tensorflow"] or ())
    roles = conversion.spec["replicaSpecs"] = {}
    for task in given.get("tasks") or ():
        role = names.get(task.get("name"))
        if role is None:
            raise ConversionError(
                f"{conversion.name}: task {task.get('name')} is none of {', '.join(names)}, which the plugin "
                "tensorflow knows: name its role in the plugin's arguments, or take it out"
            )
        if role in roles:
            raise ConversionError(f"{conversion.name}: task {task['name']} is a second {role}: keep one of them")
        roles[role] = _convert_task(conversion, task, role, port, given)
    if not roles.keys() & {"chief", "worker"}:
        raise ConversionError(f"{conversion.name}: nobody trains: add a task worker or chief")
    conversion.spec["failurePolicy"] = {"maxRestarts": given.get("maxRetry", 3)}
    conversion.spec["cleanPodPolicy"] = "Running"
    conversion.note("A failed pod is replaced alone and counts towards failurePolicy.maxRestarts; disruptions do not.")
    if given.get("ttlSecondsAfterFinished") is not None:
        conversion.spec["ttlSecondsAfterFinished"] = given["ttlSecondsAfterFinished"]
    return conversion


def _plugin_arguments(conversion: Conversion, arguments: Sequence[str]) -> tuple[dict[str, str], int]:
    """Return the role for each task's name, and the port."""
    names = {role: role for role in ROLES}
    port = PORT
    for argument in arguments:
        name, _, value = str(argument).lstrip("-").partition("=")
        if name == "port" and value.isdecimal():
            port = int(value)
        elif name in names.values() and value:
            names = {task: role for task, role in names.items() if role != name} | {value: name}
        else:
            conversion.note(f"spec.plugins.tensorflow has the argument {argument}, which is left out.")
    return names, port


def _convert_task(
    conversion: Conversion, task: Mapping[str, Any], role: str, port: int, job: Mapping[str, Any]
) -> dict[str, Any]:
    path = f"task {task['name']}"
    name_unknown(conversion, task, {"name", "replicas", "template", *TASK_LEFT_OUT}, path)
    for name, instead in TASK_LEFT_OUT.items():
        if task.get(name):
            conversion.note(f"{path}: {name} is left out: {instead}.")
    count = 1 if task.get("replicas") is None else task["replicas"]
    if role == "chief" and count > 1:
        raise ConversionError(f"{conversion.name}: {path} has {count} replicas: make all chiefs but one workers")
    given = task.get("template") or {}
    restart = ((given.get("spec") or {}).get("restartPolicy")) or "Always"
    template = convert_template(conversion, given, "tensorflow", "tfjob-port", path)
    trains = next((one for one in template["spec"]["containers"] if one.get("name") == "tensorflow"), None)
    trains = trains or template["spec"]["containers"][0]
    if port != PORT and not any(one.get("name") == "tf" for one in trains.get("ports") or ()):
        trains["ports"] = [*(trains.get("ports") or ()), {"name": "tf", "containerPort": port}]
    _mount(conversion, job.get("volumes") or (), template["spec"], trains)
    policy = restart if role in {"ps", "evaluator"} or restart != "Always" else "OnFailure"
    if policy != restart:
        conversion.note(f"{path}: restartPolicy {restart} becomes {policy}: a pod that ends with 0 is done.")
    return {"replicas": count, "restartPolicy": policy, "template": template}


def _mount(
    conversion: Conversion, volumes: Sequence[Mapping[str, Any]], spec: dict[str, Any], container: dict[str, Any]
) -> None:
    """Mount the volumes of the job, which Volcano mounts in every pod."""
    for number, volume in enumerate(volumes):
        claim = volume.get("volumeClaimName")
        if not claim:
            conversion.note(
                f"spec.volumes[{number}] makes a claim of its own, which is left out: create a PersistentVolumeClaim, "
                "and name it there as volumeClaimName."
            )
            continue
        name = f"volume-{number}"
        spec["volumes"] = [*(spec.get("volumes") or ()), {"name": name, "persistentVolumeClaim": {"claimName": claim}}]
        mount = {"name": name, "mountPath": volume.get("mountPath")}
        container["volumeMounts"] = [*(container.get("volumeMounts") or ()), mount]
