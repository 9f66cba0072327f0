"""The spec of a DistributedTrainingJob: fields, defaults, descriptions.

The schema in `crds/` is generated from these models. Rules that concern several fields stand in
`api.cel.rules`.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from dtj_operator.api.constants import COUNT_MAX, NAME_MAX, REPLICAS_MAX, SECONDS_MAX, TEXT_MAX, TOPOLOGY_PATTERN
from dtj_operator.api.enums import CleanPodPolicy, RestartPolicy, Role, StrategyType, SuccessType
from dtj_operator.api.failure_policy_spec import FailurePolicy
from dtj_operator.api.pod_template import check_pod_template
from dtj_operator.api.wire_model import WireModel


class Communication(WireModel):
    """The collective communication of MultiWorkerMirrored."""

    implementation: Literal["Auto", "Ring", "NCCL"] = Field(
        "Auto",
        description="Collective implementation: Auto lets TensorFlow choose, Ring works on any "
        "device, NCCL needs GPUs in every worker.",
    )
    timeout_seconds: int = Field(
        0,
        ge=0,
        le=SECONDS_MAX,
        description="Timeout of a collective operation in seconds; 0 relies on heartbeats alone.",
    )
    bytes_per_pack: int = Field(
        0,
        ge=0,
        le=SECONDS_MAX,
        description="Size in bytes of the packs into which gradients are batched; 0 lets TensorFlow choose.",
    )


class VariablePartitioner(WireModel):
    """The partitioner by which ParameterServer splits large variables over the ps replicas."""

    type: Literal["MinSize", "MaxSize", "FixedShards"] = Field(
        "MinSize",
        description="MinSize keeps every shard at least minShardBytes large, MaxSize keeps it at "
        "most that large, FixedShards always makes maxShards shards.",
    )
    min_shard_bytes: int = Field(
        262144, ge=1, le=SECONDS_MAX, description="Size in bytes that MinSize and MaxSize aim at."
    )
    max_shards: int = Field(2, ge=1, le=COUNT_MAX, description="The largest number of shards.")


class Strategy(WireModel):
    """The tf.distribute strategy and its options."""

    type: StrategyType = Field(
        StrategyType.AUTO,
        description="The tf.distribute strategy. Auto chooses by roles, pods and GPUs, and says "
        "why in status.strategy. None chooses nothing: the pods get TF_CONFIG only.",
    )
    cross_device_ops: Literal["Auto", "NCCL", "HierarchicalCopy", "ReductionToOneDevice"] = Field(
        "Auto", description="How Mirrored reduces gradients over the devices of one pod."
    )
    communication: Communication = Field(
        Communication(), description="Collective communication of MultiWorkerMirrored."
    )
    variable_partitioner: VariablePartitioner | None = Field(
        None,
        description="How ParameterServer splits large variables over ps replicas; omitted means "
        "that variables are not split.",
    )


class Tpu(WireModel):
    """One slice of Cloud TPUs on GKE."""

    accelerator: str = Field(
        min_length=1,
        max_length=63,
        pattern=r"^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$",
        description="The node label cloud.google.com/gke-tpu-accelerator, for example tpu-v5-lite-podslice.",
    )
    topology: str = Field(
        max_length=11,
        pattern=TOPOLOGY_PATTERN,
        description="Chips of the slice in each dimension, for example 4x4 or 2x2x2: the node label "
        "cloud.google.com/gke-tpu-topology.",
    )
    chips_per_host: int = Field(
        ge=1, le=8, description="Chips of one node of the pool; the topology over this is the number of hosts."
    )

    @property
    def hosts(self) -> int:
        """The number of nodes of the slice, each with one pod of the job."""
        return math.prod(map(int, self.topology.split("x"))) // self.chips_per_host


class ReplicaSpec(WireModel):
    """One role of the job."""

    replicas: int = Field(
        1,
        ge=0,
        le=REPLICAS_MAX,
        description="Number of pods of this role; at most 1 for chief.",
    )
    restart_policy: RestartPolicy = Field(
        RestartPolicy.ON_FAILURE,
        description="What happens after a failure. OnFailure: the operator replaces the pod. Always: "
        "the kubelet restarts the container in its pod (ps and evaluator only). Never: the job "
        "fails. ExitCode: the exit code decides whether to restart or to fail.",
    )
    template: Annotated[dict[str, Any], AfterValidator(check_pod_template)] = Field(
        description="The pod template of this role. Every field of a PodTemplateSpec is kept."
    )


class SuccessPolicy(WireModel):
    """The condition under which the job has succeeded."""

    type: SuccessType = Field(
        SuccessType.CHIEF,
        description="Chief: the chief's success (or worker 0's, if there is no chief) is the "
        "job's. AllWorkers: all workers, and the chief if there is one, have to succeed.",
    )
    wait_for_evaluator_seconds: int = Field(
        0,
        ge=0,
        le=SECONDS_MAX,
        description="Seconds that a succeeded job waits for its evaluator to end before it is stopped.",
    )


class Checkpoint(WireModel):
    """The place and the frequency of the checkpoints."""

    directory: str = Field(
        "",
        max_length=TEXT_MAX,
        description="A path that every pod sees, or a URI (gs://, s3://, hdfs://). Empty means "
        "no checkpoints: a restarted job begins again at step 0.",
    )
    persistent_volume_claim: str = Field(
        "",
        max_length=NAME_MAX,
        description="PersistentVolumeClaim that is mounted at directory in the main container of every pod.",
    )
    every_steps: int = Field(0, ge=0, le=SECONDS_MAX, description="Steps between two checkpoints; 0 means by time.")
    every_seconds: int = Field(60, ge=0, le=SECONDS_MAX, description="Seconds between two checkpoints.")
    keep: int = Field(3, ge=1, le=COUNT_MAX, description="How many checkpoints are kept.")


class JobSpec(WireModel):
    """The desired state of a job."""

    strategy: Strategy = Field(Strategy(), description="The tf.distribute strategy and its options.")
    replica_specs: dict[Role, ReplicaSpec] = Field(
        description="The roles of the job: chief, worker, ps, evaluator. At least one of chief and worker is needed."
    )
    main_container: str = Field(
        "",
        max_length=63,
        description="Name of the container that trains and gets TF_CONFIG. Unset: the one named "
        "tensorflow, else the first.",
    )
    cluster_domain: str = Field(
        "",
        max_length=NAME_MAX,
        description="DNS domain of the cluster, appended to the addresses in TF_CONFIG when set.",
    )
    success_policy: SuccessPolicy = Field(SuccessPolicy(), description="When the job has succeeded.")
    failure_policy: FailurePolicy = Field(
        FailurePolicy(), description="Which failures lead to a restart, and how many of them."
    )
    suspend: bool = Field(
        False,
        description="True stops all pods and keeps the job; false starts it again from its last checkpoint.",
    )
    managed_by: str = Field(
        "",
        max_length=63,
        description="The controller that manages the job. With any value but empty and dtj.dev/operator "
        "this operator ignores the job. Immutable.",
    )
    active_deadline_seconds: int | None = Field(
        None,
        ge=0,
        le=SECONDS_MAX,
        description="Seconds from startTime after which an unfinished job fails. A resume starts this time again.",
    )
    start_deadline_seconds: int | None = Field(
        None,
        ge=0,
        le=SECONDS_MAX,
        description="Seconds from the first pod to Running after which the job fails.",
    )
    ttl_seconds_after_finished: int | None = Field(
        None,
        ge=0,
        le=SECONDS_MAX,
        description="Seconds after completionTime at which the job is deleted with all it owns.",
    )
    clean_pod_policy: CleanPodPolicy = Field(
        CleanPodPolicy.RUNNING,
        description="Which pods of a finished job are removed: Running the unfinished ones, All "
        "every pod and the service, None nothing.",
    )
    profile: str = Field(
        "",
        max_length=NAME_MAX,
        pattern=r"^[-._a-zA-Z0-9]*$",
        description="Name of a profile of the cluster's administrator, which is merged under every template: "
        "node selectors, tolerations, shared memory and the like for a kind of node.",
    )
    tpu: Tpu | None = Field(
        None,
        description="One slice of Cloud TPUs. A slice of one host is worker 0, or the chief of a job without workers; "
        "a slice of several hosts has as many workers, and a chief on a node without chips.",
    )
    checkpoint: Checkpoint = Field(Checkpoint(), description="Where and how often the trainer saves checkpoints.")

    @property
    def tpu_role(self) -> Role | None:
        """The role whose pods are the hosts of the TPU slice; None without spec.tpu."""
        if self.tpu is None:
            return None
        return Role.WORKER if self.replicas(Role.WORKER) else Role.CHIEF

    def replicas(self, role: Role) -> int:
        """Return the number of desired pods of a role; 0 when the role is not in the job."""
        replica = self.replica_specs.get(role)
        return replica.replicas if replica else 0
