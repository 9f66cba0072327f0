"""Jobs of other operators, each valid for its own: TFJobs, and Volcano jobs with the plugin `tensorflow`."""

from __future__ import annotations

from typing import Any

GPU = {"resources": {"limits": {"nvidia.com/gpu": 1}}}


def replica(count: int = 1, policy: str | None = None, pod: dict[str, Any] | None = None, **container: Any) -> Any:
    """Return one role of a TFJob; `pod` are fields of its pods beside the container."""
    main = {"name": "tensorflow", "image": "example.org/train:1", **container}
    found: dict[str, Any] = {"replicas": count, "template": {"spec": {"containers": [main], **(pod or {})}}}
    return found | ({"restartPolicy": policy} if policy else {})


def tfjob(roles: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """Return a TFJob of namespace `team`."""
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": "mnist", "namespace": "team", "labels": {"a": "b"}},
        "spec": {"tfReplicaSpecs": roles, **spec},
    }


def task(name: str, count: int = 1, **fields: Any) -> dict[str, Any]:
    """Return one task of a Volcano job."""
    template = {"spec": {"restartPolicy": "OnFailure", "containers": [{"name": "main", "image": "example.org/a:1"}]}}
    return {"name": name, "replicas": count, "template": template, **fields}


def volcano(tasks: list[dict[str, Any]], *arguments: str, **spec: Any) -> dict[str, Any]:
    """Return a Volcano job; `arguments` are the plugin's."""
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "mnist"},
        "spec": {"tasks": tasks, "plugins": {"svc": [], "env": [], "tensorflow": list(arguments)}, **spec},
    }


VOLUMES = {
    "volumes": [
        {"name": "data", "persistentVolumeClaim": {"claimName": "images", "readOnly": True}},
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}},
    ],
    "initContainers": [{"name": "fetch", "image": "example.org/fetch:1", "command": ["fetch", "--to=/data"]}],
    "nodeSelector": {"pool": "training"},
    "tolerations": [{"key": "dedicated", "operator": "Exists"}],
}
MOUNTS = [{"name": "data", "mountPath": "/data"}, {"name": "shm", "mountPath": "/dev/shm"}]
PORTS = [{"name": "tfjob-port", "containerPort": 3333}, {"name": "http", "containerPort": 8080}]
PROBE = {"tcpSocket": {"port": "tfjob-port"}, "periodSeconds": 7}
SIDECAR = {"name": "proxy", "image": "example.org/proxy:1", "env": [{"name": "TF_CONFIG", "value": "mine"}]}


def exported() -> dict[str, Any]:
    """Return a TFJob as `kubectl get -o yaml` prints it."""
    job = tfjob({"Worker": replica(2)})
    job["metadata"] |= {
        "uid": "6f1c9d3e",
        "resourceVersion": "4711",
        "generation": 4,
        "creationTimestamp": "2026-01-01T15:29:15Z",
        "managedFields": [{"manager": "kubectl", "operation": "Update", "apiVersion": "kubeflow.org/v1"}],
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}", "team.example.org/owner": "vision"},
        "finalizers": ["team.example.org/guard"],
    }
    job["status"] = {"conditions": [{"type": "Running", "status": "True"}], "startTime": "2026-01-01T15:29:16Z"}
    job["spec"]["tfReplicaSpecs"]["Worker"]["template"]["metadata"] = {
        "creationTimestamp": None,
        "name": "template-name",
        "labels": {"app": "mnist-pods"},
        "annotations": {"sidecar.istio.io/inject": "false"},
    }
    return job


def with_sidecar() -> dict[str, Any]:
    """Return a TFJob whose pods have a second container and avoid the nodes of their peers."""
    role = replica(2, "OnFailure", ports=PORTS, readinessProbe=PROBE, env=[{"name": "LOSS", "value": "mse"}])
    pod = role["template"]["spec"]
    pod["containers"].append(SIDECAR)
    peers = {"matchLabels": {"training.kubeflow.org/job-name": "mnist"}}
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": peers}
    pod["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return tfjob({"Worker": role})


TFJOBS: dict[str, dict[str, Any]] = {
    "one worker": tfjob({"Worker": replica()}),
    "workers": tfjob({"Worker": replica(4)}),
    "a chief alone": tfjob({"Chief": replica()}),
    "chief and workers": tfjob({"Chief": replica(), "Worker": replica(3)}),
    "chief, workers and ps": tfjob({"Chief": replica(), "Worker": replica(2), "PS": replica(3, "Always")}),
    "workers and ps": tfjob({"Worker": replica(2), "PS": replica(1, "Never")}),
    "master, in any case of letters": tfjob({"MASTER": replica(), "worker": replica(2), "ps": replica()}),
    "evaluator": tfjob({"Chief": replica(), "Worker": replica(2), "Evaluator": replica(1, "OnFailure")}),
    **{
        f"restart policy {policy}": tfjob({
            "Chief": replica(1, policy), "Worker": replica(2, policy), "PS": replica(1, policy),
            "Evaluator": replica(1, policy),
        })
        for policy in ("Always", "OnFailure", "Never", "ExitCode")
    },
    **{
        f"clean-up {policy}": tfjob({"Worker": replica(2)}, runPolicy={"cleanPodPolicy": policy})
        for policy in ("All", "Running", "None")
    },
    "GPUs": tfjob({"Worker": replica(2, "ExitCode", **GPU)}),
    "volumes": tfjob({"Worker": replica(2, pod=VOLUMES, volumeMounts=MOUNTS)}),
    "a queue": tfjob(
        {"Worker": replica(2, pod={"schedulerName": "volcano"})},
        runPolicy={
            "schedulingPolicy": {
                "queue": "research", "minAvailable": 7, "minResources": {"cpu": "19"}, "priorityClass": "high",
                "scheduleTimeoutSeconds": 77,
            }
        },
    ),
    "queued by Kueue": tfjob({"Worker": replica(2)}, runPolicy={"suspend": True})
    | {"metadata": {"name": "mnist", "labels": {"kueue.x-k8s.io/queue-name": "research"}}},
    "suspended": tfjob({"Worker": replica(2)}, runPolicy={"suspend": True}),
    "all policies": tfjob(
        {"Worker": replica(2)},
        runPolicy={
            "cleanPodPolicy": "All", "backoffLimit": 5, "activeDeadlineSeconds": 61, "ttlSecondsAfterFinished": 62,
            "suspend": False, "managedBy": "kubeflow.org/training-operator",
        },
        enableDynamicWorker=False,
    ),
    "managed by another": tfjob({"Worker": replica(2)}, runPolicy={"managedBy": "kueue.x-k8s.io/multikueue"}),
    "policies beside the replicas": tfjob({"Worker": replica()}, cleanPodPolicy="Running", backoffLimit=6),
    "all workers": tfjob({"Worker": replica(3, "Always")}, successPolicy="AllWorkers"),
    "all workers, with a chief": tfjob({"Chief": replica(), "Worker": replica(3)}, successPolicy="AllWorkers"),
    "dynamic workers": tfjob({"Worker": replica(3, "OnFailure"), "PS": replica()}, enableDynamicWorker=True),
    "ports, a probe and a second container": with_sidecar(),
    "fields of a pod that the operator sets": tfjob({
        "Worker": replica(
            2, pod={"restartPolicy": "OnFailure", "hostname": "somebody", "subdomain": "somewhere"},
            env=[{"name": "TF_CONFIG", "value": "{}"}, {"name": "LOSS", "value": "mse"}],
        )
    }),
    "exported": exported(),
}  # fmt: skip

VOLCANO_JOBS: dict[str, dict[str, Any]] = {
    "workers": volcano([task("worker", 3)]),
    "chief, workers and ps": volcano([task("ps", 2), task("worker", 2), task("chief")]),
    "evaluator": volcano([task("worker", 2), task("evaluator")]),
    "names of its own": volcano(
        [task("server", 2), task("trainer", 2)], "--ps=server", "--worker=trainer", "--port=3000"
    ),
    "ends with the chief": volcano([
        task("worker", 2),
        task("chief", policies=[{"event": "TaskCompleted", "action": "CompleteJob"}]),
    ]),
    "volumes": volcano(
        [task("worker", 2)],
        volumes=[
            {"mountPath": "/data", "volumeClaimName": "images"},
            {"mountPath": "/cache", "volumeClaimName": "images"},
            {"mountPath": "/out", "volumeClaim": {"accessModes": ["ReadWriteOnce"], "storageClassName": "fast"}},
        ],
    ),
    "all fields": volcano(
        [task("worker", 2, minAvailable=1, maxRetry=12, dependsOn={"name": ["ps"]}, topologyPolicy="single-numa-node",
              partitionPolicy={"totalPartitions": 1})],
        "--strange",
        schedulerName="volcano", minAvailable=3, queue="research", priorityClassName="high", maxRetry=9,
        ttlSecondsAfterFinished=63, minSuccess=11, runningEstimate="10m", networkTopology={"mode": "hard"},
        policies=[{"event": "PodEvicted", "action": "RestartJob"}],
    ),
}  # fmt: skip
