"""TFJobs of Kubeflow's training-operator v1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dtj.convert.conversion import Conversion, start_conversion
from dtj.convert.fields import Fields, one_line, shown
from dtj.convert.pod_template import convert_template
from dtj.convert.replicas import convert_count, convert_restart_policy, use_strategy_none

ROLES = {"chief": "chief", "master": "chief", "worker": "worker", "ps": "ps", "evaluator": "evaluator"}
"""The role here for that of a TFJob, whose letters may be of any case."""
RESTART_POLICIES = ("Never", "Always", "OnFailure", "ExitCode")
"""The first is the default."""
SCHEDULING = "there are no gangs and no queues yet, and the scheduler places each pod by itself"
RUN_POLICY = (
    "cleanPodPolicy", "suspend", "activeDeadlineSeconds", "ttlSecondsAfterFinished", "backoffLimit", "managedBy",
    "schedulingPolicy",
)  # fmt: skip
OLD_LABELS = "training.kubeflow.org/"


def is_tfjob(document: Mapping[str, Any]) -> bool:
    """Return whether a document is a TFJob."""
    return document.get("kind") == "TFJob"


def convert_tfjob(document: Mapping[str, Any]) -> Conversion:
    """Return the job that does the same. Raises ConversionError."""
    conversion, job = start_conversion(document, "kubeflow.org/v1")
    for condition in job.object_at("status").objects_at("conditions"):
        if (ended := condition.string("type")) in {"Succeeded", "Failed"} and condition.string("status") == "True":
            conversion.note(f"{condition.path} says {ended}: the job is done, and the new one would run it again.")
    spec = job.object_at("spec")
    roles = _convert_roles(conversion, spec.object_at("tfReplicaSpecs"))
    conversion.spec["replicaSpecs"] = roles
    if roles.get("ps", {}).get("replicas"):
        use_strategy_none(conversion)
    policy = _run_policy(conversion, spec)
    _convert_run_policy(conversion, policy)
    _convert_success(conversion, spec, roles)
    spec.leave_out(
        "enableDynamicWorker",
        "every pod has the whole cluster in TF_CONFIG, and a worker's failure counts; a rule of failurePolicy.rules "
        "with roles [worker] and action Ignore lets workers fail without end",
    )
    for part in (policy, spec, job):
        part.name_rest()
    conversion.note(
        "The address of a pod is JOB-ROLE-INDEX.JOB.NAMESPACE.svc, from one Service for the job; in a TFJob it is "
        "JOB-ROLE-INDEX.NAMESPACE.svc, from one for each pod."
    )
    conversion.note(f"Pods have the labels dtj.dev/job-name, dtj.dev/role and dtj.dev/index, and none of {OLD_LABELS}.")
    return conversion


def _convert_roles(conversion: Conversion, given: Fields) -> dict[str, Any]:
    roles: dict[str, Any] = {}
    for kind in given:
        role = ROLES.get(kind.lower())
        if role is None:
            raise given.error(kind, "is no role: make it Chief, Worker, PS or Evaluator, or take it out")
        if role in roles:
            raise given.error(kind, f"is a second {role}: keep one of them")
        if kind.lower() == "master":
            conversion.note(f"{given.at(kind)} is the role chief, in TF_CONFIG and in the name of its pod too.")
        roles[role] = _convert_replica(conversion, given.object_at(kind), role)
    if not roles.keys() & {"chief", "worker"}:
        raise conversion.error(f"nobody trains: add {given.at('Worker')} or {given.at('Chief')}")
    if "evaluator" in roles:
        conversion.note(
            "The evaluator is not in the cluster of TF_CONFIG, as TensorFlow expects, and its failure never fails the "
            "job; with a TFJob both are otherwise. successPolicy.waitForEvaluatorSeconds lets it finish."
        )
    return roles


def _convert_replica(conversion: Conversion, given: Fields, role: str) -> dict[str, Any]:
    count = convert_count(given, role)
    policy = convert_restart_policy(conversion, given, role, RESTART_POLICIES)
    template = given.object_at("template")
    converted = convert_template(conversion, template, port_name="tfjob-port")
    for path in _with_old_labels(template.kept(), template.path):
        conversion.note(f"{path} names a label of {OLD_LABELS}, which the pods do not have: use those of dtj.dev/.")
    given.name_rest()
    return {"replicas": count, "restartPolicy": policy, "template": converted}


def _with_old_labels(value: Any, path: str) -> list[str]:
    """Return the paths of selectors that name a label of training-operator's pods."""
    if isinstance(value, str):
        return [path] if value.startswith(OLD_LABELS) else []
    if isinstance(value, list):
        return [found for number, one in enumerate(value) for found in _with_old_labels(one, f"{path}[{number}]")]
    parts = {f"{path}.{one_line(str(name))}": name for name in value} if isinstance(value, dict) else {}
    named = [place for place, name in parts.items() if str(name).startswith(OLD_LABELS)]
    return named + [found for place, name in parts.items() for found in _with_old_labels(value[name], place)]


def _run_policy(conversion: Conversion, spec: Fields) -> Fields:
    """Return the fields of runPolicy; older TFJobs have them beside the replicas."""
    if "runPolicy" in spec:
        return spec.object_at("runPolicy")
    for name in RUN_POLICY:
        if name in spec:
            conversion.note(f"{spec.at(name)} is read as spec.runPolicy.{name}, where training-operator expects it.")
    return spec


def _convert_run_policy(conversion: Conversion, given: Fields) -> None:
    spec = conversion.spec
    spec["cleanPodPolicy"] = given.choice("cleanPodPolicy", "All", "Running", "None") or "None"
    if spec["cleanPodPolicy"] == "None":
        conversion.note(
            f"{given.at('cleanPodPolicy')} None leaves ps and unfinished workers running when the job has ended, with "
            "their GPUs, as in a TFJob; Running, the default here, deletes them."
        )
    for name, value in (
        ("suspend", given.boolean("suspend")),
        ("activeDeadlineSeconds", given.integer("activeDeadlineSeconds")),
        ("ttlSecondsAfterFinished", given.integer("ttlSecondsAfterFinished")),
    ):
        if value is not None:
            spec[name] = value
    if "activeDeadlineSeconds" in spec:
        conversion.note(
            f"{given.at('activeDeadlineSeconds')} is kept to the second; a TFJob runs on until something happens to it."
        )
    limit = given.integer("backoffLimit")
    if limit is not None:
        spec["failurePolicy"] = {"maxRestarts": limit}
        conversion.note(
            f"{given.at('backoffLimit')} is failurePolicy.maxRestarts: replaced pods count too, and disruptions do not."
        )
    elif any(role["restartPolicy"] != "Never" for role in spec["replicaSpecs"].values()):
        conversion.note(
            f"{given.at('backoffLimit')} is not set: failurePolicy.maxRestarts is 3, and a TFJob restarts without end."
        )
    if given.string("managedBy") == "kubeflow.org/training-operator":
        given.leave_out("managedBy", "this operator manages the job")
    elif manager := given.string("managedBy"):
        spec["managedBy"] = manager
        conversion.note(f"{given.at('managedBy')}{shown(manager)} is kept: this operator ignores the job.")
    scheduling = given.object_at("schedulingPolicy")
    scheduling.leave_out("priorityClass", "set template.spec.priorityClassName")
    for name in scheduling:
        if name != "priorityClass":
            scheduling.leave_out(name, SCHEDULING)


def _convert_success(conversion: Conversion, spec: Fields, roles: Mapping[str, Any]) -> None:
    if spec.choice("successPolicy", "AllWorkers", "ChiefWorker") == "AllWorkers":
        if "chief" in roles:
            spec.leave_out("successPolicy", "a TFJob with a chief succeeds with its chief, and so does this job")
        else:
            conversion.spec["successPolicy"] = {"type": "AllWorkers"}
    else:
        spec.leave_out("successPolicy", "a job succeeds with its chief, or with worker 0, as a TFJob does")
    conversion.note(
        "If another pod fails while the chief or worker 0 succeeds, the job is Succeeded; a TFJob may be both "
        "Succeeded and Failed."
    )
