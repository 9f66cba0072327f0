"""Jobs of Volcano with its plugin `tensorflow`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

from dtj.convert.conversion import ROLES, Conversion, start_conversion
from dtj.convert.fields import Fields, one_line, one_of, shown
from dtj.convert.pod_template import DEFAULT_PORT, convert_template, main_container
from dtj.convert.replicas import convert_count, convert_restart_policy, use_strategy_none

MAX_RETRY = 3
LEFT_OUT = {
    "minAvailable": "all pods are made at once, and the scheduler places each by itself",
    "schedulerName": "the cluster's scheduler places the pods, unless template.spec.schedulerName names another",
    "queue": "there are no queues yet",
    "priorityClassName": "set template.spec.priorityClassName",
    "policies": "see failurePolicy.rules and successPolicy",
    "minSuccess": "see successPolicy",
    "runningEstimate": "nothing uses it",
    "networkTopology": "set template.spec.affinity",
}
"""Fields of a job without a counterpart, and what holds instead."""
TASK_LEFT_OUT = {
    "minAvailable": "a job is Running when all its pods are ready",
    "policies": "see failurePolicy.rules and successPolicy",
    "maxRetry": "failurePolicy.maxRestarts is the job's",
    "dependsOn": "pods start together, and the trainer waits for its peers",
    "topologyPolicy": "set resources of whole devices and CPUs",
    "partitionPolicy": "a job has no partitions",
}
PLUGINS_LEFT_OUT = {
    "svc": "one Service gives each pod the address JOB-ROLE-INDEX.JOB, TF_CONFIG names them all, and there are no "
    "VC_ variables and no files in /etc/volcano",
    "env": "a pod's index is DTJ_INDEX, not VC_TASK_INDEX",
}
RESTART_POLICIES = ("Always", "OnFailure", "Never")
"""Those of a pod; the first is the default."""


def is_volcano_job(document: Mapping[str, Any]) -> bool:
    """Return whether a document is a Volcano job with the plugin `tensorflow`."""
    if document.get("kind") != "Job" or not str(document.get("apiVersion")).startswith("batch.volcano.sh/"):
        return False
    spec = document.get("spec")
    plugins = spec.get("plugins") if isinstance(spec, Mapping) else None
    return isinstance(plugins, Mapping) and "tensorflow" in plugins


def convert_volcano_job(document: Mapping[str, Any]) -> Conversion:
    """Return the job that does the same. Raises ConversionError."""
    conversion, job = start_conversion(document, "batch.volcano.sh/v1alpha1")
    spec = job.object_at("spec")
    plugins = spec.object_at("plugins")
    names, port = _plugin_arguments(conversion, plugins)
    for name, instead in PLUGINS_LEFT_OUT.items():
        plugins.leave_out(name, instead)
    volumes = _claims(conversion, spec.objects_at("volumes"))
    known = one_of([one_line(name) for name in names])
    roles = conversion.spec["replicaSpecs"] = {}
    ends_with_chief = False
    for task in spec.objects_at("tasks"):
        name = task.string("name")
        role = names.get(name)
        if role is None:
            raise task.error(
                "name",
                f"is {one_line(name) if name else 'missing'}, and the plugin tensorflow knows {known}: name its role "
                "in the plugin's arguments, or take the task out",
            )
        if role in roles:
            raise task.error("name", f"is {one_line(name)}, a second {role}: keep one of them")
        if name != role:
            conversion.note(f"{task.at('name')}{shown(name)} becomes {role}, in the names of the pods too.")
        ends_with_chief |= role == "chief" and _completes_job(task)
        roles[role] = _convert_task(conversion, task, role, port)
        _mount(volumes, roles[role]["template"]["spec"])
    if not roles.keys() & {"chief", "worker"}:
        raise spec.error("tasks", "has none that trains: add a task worker or chief")
    if roles.get("ps", {}).get("replicas"):
        use_strategy_none(conversion)
    _convert_policies(conversion, spec, ends_with_chief=ends_with_chief)
    for left, instead in LEFT_OUT.items():
        spec.leave_out(left, instead)
    for part in (plugins, spec, job):
        part.name_rest()
    return conversion


def _plugin_arguments(conversion: Conversion, plugins: Fields) -> tuple[dict[str, str], int]:
    """Return the role for each task's name, and the port."""
    names = {role: role for role in ROLES}
    port = DEFAULT_PORT
    for index, argument in enumerate(plugins.strings("tensorflow")):
        name, _, value = argument.lstrip("-").partition("=")
        if name == "port" and value.isdecimal():
            port = int(value)
        elif name in ROLES and value:
            names = {task: role for task, role in names.items() if role != name} | {value: name}
        else:
            conversion.note(
                f"{plugins.at('tensorflow')}[{index}]{shown(argument)} is left out: it is no argument of it."
            )
    return names, port


def _completes_job(task: Fields) -> bool:
    """Return whether the end of a task is the end of its job."""
    rules = [(rule.string("event"), rule.string("action")) for rule in task.objects_at("policies")]
    return ("TaskCompleted", "CompleteJob") in rules


def _convert_task(conversion: Conversion, task: Fields, role: str, port: int) -> dict[str, Any]:
    for name, instead in TASK_LEFT_OUT.items():
        task.leave_out(name, instead)
    replicas = convert_count(task, role)
    given = task.object_at("template")
    policy = convert_restart_policy(conversion, given.object_at("spec"), role, RESTART_POLICIES)
    template = convert_template(conversion, given, port_number=port)
    task.name_rest()
    if len(template["spec"]["containers"]) > 1:
        main = one_line(main_container(template)["name"])
        conversion.note(f"{given.path}: only the container {main} gets TF_CONFIG; Volcano sets it in all.")
    return {"replicas": replicas, "restartPolicy": policy, "template": template}


def _claims(conversion: Conversion, volumes: Sequence[Fields]) -> list[tuple[str, str]]:
    """Return claim and path of each volume of the job."""
    claims = []
    for volume in volumes:
        claim, path = volume.string("volumeClaimName"), volume.string("mountPath")
        if not path:
            raise volume.error("mountPath", "is missing: say where the volume is mounted")
        if claim:
            claims.append((claim, path))
        else:
            conversion.note(
                f"{volume.path}{shown(path)} is left out: create a PersistentVolumeClaim, and name it there as "
                "volumeClaimName."
            )
        volume.leave_out("volumeClaim", "no claim is made for a job")
        volume.name_rest()
    return claims


def _mount(claims: Sequence[tuple[str, str]], pod: dict[str, Any]) -> None:
    """Mount the volumes of the job in every container of a pod, as Volcano does."""
    volumes, names = list(pod.get("volumes", ())), {}
    for claim in dict.fromkeys(claim for claim, _ in claims):
        taken = {volume.get("name") for volume in volumes}
        names[claim] = next(name for number in count() if (name := f"volume-{number}") not in taken)
        volumes.append({"name": names[claim], "persistentVolumeClaim": {"claimName": claim}})
    mounts = [{"name": names[claim], "mountPath": path} for claim, path in claims]
    if mounts:
        pod["volumes"] = volumes
        for container in pod["containers"]:
            container["volumeMounts"] = [*container.get("volumeMounts", ()), *mounts]


def _convert_policies(conversion: Conversion, given: Fields, *, ends_with_chief: bool) -> None:
    retries = given.integer("maxRetry")
    conversion.spec["failurePolicy"] = {"maxRestarts": MAX_RETRY if retries is None else retries}
    conversion.note(
        f"{given.at('maxRetry')} is failurePolicy.maxRestarts: a failed pod is replaced alone and counts, and "
        "disruptions do not."
    )
    if (seconds := given.integer("ttlSecondsAfterFinished")) is not None:
        conversion.spec["ttlSecondsAfterFinished"] = seconds
    if ends_with_chief:
        conversion.note("The job succeeds with its chief.")
    else:
        conversion.spec["successPolicy"] = {"type": "AllWorkers"}
        conversion.note(
            "The job succeeds when its chief and all workers have; a Volcano job when its policies say so, or all pods "
            "have ended."
        )
