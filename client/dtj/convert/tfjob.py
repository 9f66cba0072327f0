"""TFJobs of Kubeflow's training-operator v1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dtj.convert.conversion import Conversion, ConversionError, begin, convert_template, name_unknown

ROLES = {"chief": "chief", "master": "chief", "worker": "worker", "ps": "ps", "evaluator": "evaluator"}
"""The role here for that of a TFJob, whose letters may be of any case."""
POLICIES = ("Always", "OnFailure", "Never", "ExitCode")
RUN_POLICY = {
    "cleanPodPolicy", "ttlSecondsAfterFinished", "activeDeadlineSeconds", "backoffLimit", "schedulingPolicy", "suspend",
    "managedBy",
}  # fmt: skip


def is_tfjob(document: Mapping[str, Any]) -> bool:
    """Return whether a document is a TFJob."""
    return document.get("kind") == "TFJob" and str(document.get("apiVersion")).startswith("kubeflow.org/")


def convert_tfjob(document: Mapping[str, Any]) -> Conversion:
    """Return the job that does the same. Raises ConversionError."""
    conversion = begin(document)
    given = document.get("spec") or {}
    # Older TFJobs have the fields of runPolicy beside the replicas.
    policy = {**{name: given[name] for name in RUN_POLICY if name in given}, **(given.get("runPolicy") or {})}
    name_unknown(
        conversion, given, {"tfReplicaSpecs", "runPolicy", "successPolicy", "enableDynamicWorker", *RUN_POLICY}, "spec"
    )
    name_unknown(conversion, policy, RUN_POLICY, "spec.runPolicy")
    _convert_roles(conversion, given.get("tfReplicaSpecs") or {})
    _convert_policies(conversion, policy)
    _convert_success(conversion, str(given.get("successPolicy") or ""))
    if given.get("enableDynamicWorker"):
        conversion.note(
            "enableDynamicWorker is left out: under ParameterServer a lost worker never fails the job, and every pod "
            "has the whole cluster in TF_CONFIG."
        )
    conversion.note(
        "A pod's address is JOB-ROLE-INDEX.JOB.NAMESPACE.svc: one headless Service for the job "
        "in place of one for each pod."
    )
    return conversion


def _convert_roles(conversion: Conversion, given: Mapping[str, Any]) -> None:
    roles = conversion.spec["replicaSpecs"] = {}
    for kind, replica in given.items():
        role = ROLES.get(kind.lower())
        path = f"tfReplicaSpecs.{kind}"
        if role is None:
            raise ConversionError(
                f"{conversion.name}: {path} is no role of a DistributedTrainingJob: make it Chief, Worker, PS or "
                "Evaluator"
            )
        if role in roles:
            raise ConversionError(f"{conversion.name}: {path} is a second {role}: keep one of them")
        roles[role] = _convert_replica(conversion, replica or {}, role, path)
    if not roles.keys() & {"chief", "worker"}:
        raise ConversionError(f"{conversion.name}: nobody trains: add tfReplicaSpecs.Worker or tfReplicaSpecs.Chief")
    if "evaluator" in roles:
        conversion.note("The evaluator is not in the cluster of TF_CONFIG, as TensorFlow expects.")
    if roles.get("ps", {}).get("replicas") and not {"chief", "worker"} <= roles.keys():
        conversion.spec["strategy"] = {"type": "None"}
        conversion.note(
            "With ps and without both chief and worker the strategy is None: the image builds everything itself from "
            "TF_CONFIG."
        )


def _convert_replica(conversion: Conversion, given: Mapping[str, Any], role: str, path: str) -> dict[str, Any]:
    name_unknown(conversion, given, {"replicas", "template", "restartPolicy"}, path)
    count = 1 if given.get("replicas") is None else given["replicas"]
    if role == "chief" and count > 1:
        raise ConversionError(f"{conversion.name}: {path}.replicas is {count}: make all chiefs but one workers")
    policy = given.get("restartPolicy") or "Never"
    if policy not in POLICIES:
        raise ConversionError(f"{conversion.name}: {path}.restartPolicy is {policy}: use one of {', '.join(POLICIES)}")
    if policy == "Always" and role in {"chief", "worker"}:
        policy = "OnFailure"
        conversion.note(f"{path}: restartPolicy Always becomes OnFailure: a worker that ends with 0 is done.")
    elif policy == "Never":
        conversion.note(f"{path}: under restartPolicy Never a lost node, an eviction or a preemption replaces the pod.")
    elif policy == "ExitCode":
        conversion.note(f"{path}: under restartPolicy ExitCode 134 and 139 are permanent, and 42 and 75 are restarted.")
    else:
        conversion.note(f"{path}: restarts under restartPolicy {policy} count towards failurePolicy.maxRestarts.")
    template = convert_template(conversion, given.get("template") or {}, "tensorflow", "tfjob-port", path)
    return {"replicas": count, "restartPolicy": policy, "template": template}


def _convert_policies(conversion: Conversion, policy: Mapping[str, Any]) -> None:
    spec = conversion.spec
    spec["cleanPodPolicy"] = policy.get("cleanPodPolicy") or "None"
    if spec["cleanPodPolicy"] == "None":
        conversion.note(
            "cleanPodPolicy None leaves ps and unfinished workers running at the end, with their GPUs; Running removes "
            "them."
        )
    for name in ("suspend", "activeDeadlineSeconds", "ttlSecondsAfterFinished"):
        if policy.get(name) is not None:
            spec[name] = policy[name]
    if policy.get("activeDeadlineSeconds") is not None:
        conversion.note("activeDeadlineSeconds is kept to the second here; a quiet TFJob ran on.")
    if policy.get("backoffLimit") is not None:
        spec["failurePolicy"] = {"maxRestarts": policy["backoffLimit"]}
        conversion.note("backoffLimit is failurePolicy.maxRestarts: replaced pods count too, disruptions do not.")
    else:
        conversion.note("Without backoffLimit a TFJob restarts without bound; here failurePolicy.maxRestarts is 3.")
    manager = policy.get("managedBy")
    if manager and manager != "kubeflow.org/training-operator":
        spec["managedBy"] = manager
        conversion.note(f"managedBy {manager} is kept: this operator leaves the job alone.")
    for name, value in (policy.get("schedulingPolicy") or {}).items():
        conversion.note(f"schedulingPolicy.{name} ({value}) is left out: there are no gangs and no queues yet.")


def _convert_success(conversion: Conversion, policy: str) -> None:
    if policy not in {"", "ChiefWorker", "AllWorkers"}:
        raise ConversionError(f"{conversion.name}: successPolicy is {policy}: use AllWorkers, or leave it out")
    roles = conversion.spec["replicaSpecs"]
    if policy == "AllWorkers":
        if "chief" in roles:
            conversion.note("successPolicy AllWorkers is left out: a TFJob with a chief succeeds with its chief.")
        else:
            conversion.spec["successPolicy"] = {"type": "AllWorkers"}
    conversion.note("A job that succeeds and fails at once has succeeded.")
