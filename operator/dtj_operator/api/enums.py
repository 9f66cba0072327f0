"""The enums of spec, status, conditions and events: every word that other tools may rely on."""

from __future__ import annotations

from enum import StrEnum


class Role(StrEnum):
    """What a pod does; the keys of `spec.replicaSpecs`, and TF_CONFIG's task types."""

    CHIEF = "chief"
    WORKER = "worker"
    PS = "ps"
    EVALUATOR = "evaluator"


TRAINING_ROLES = (Role.CHIEF, Role.WORKER, Role.PS)
"""The roles that training needs; an evaluator only watches."""


class StrategyType(StrEnum):
    """Which tf.distribute strategy a job uses."""

    AUTO = "Auto"
    ONE_DEVICE = "OneDevice"
    MIRRORED = "Mirrored"
    MULTI_WORKER_MIRRORED = "MultiWorkerMirrored"
    PARAMETER_SERVER = "ParameterServer"
    CENTRAL_STORAGE = "CentralStorage"
    TPU = "TPU"
    NONE = "None"


ONE_POD_STRATEGIES = (StrategyType.ONE_DEVICE, StrategyType.MIRRORED, StrategyType.CENTRAL_STORAGE)


class RestartPolicy(StrEnum):
    """What happens when a replica's main container ends with a code other than 0."""

    ON_FAILURE = "OnFailure"
    ALWAYS = "Always"
    NEVER = "Never"
    EXIT_CODE = "ExitCode"


class SuccessType(StrEnum):
    """Whose success is the job's."""

    CHIEF = "Chief"
    ALL_WORKERS = "AllWorkers"


class CleanPodPolicy(StrEnum):
    """Which pods of a finished job are removed."""

    RUNNING = "Running"
    ALL = "All"
    NONE = "None"


class RestartScope(StrEnum):
    """Which pods a restart replaces."""

    AUTO = "Auto"
    POD = "Pod"
    ROLE = "Role"
    JOB = "Job"


class RuleAction(StrEnum):
    """What a failure rule does with the root cause it matches."""

    IGNORE = "Ignore"
    RESTART_POD = "RestartPod"
    RESTART_ROLE = "RestartRole"
    RESTART_JOB = "RestartJob"
    FAIL_JOB = "FailJob"


class Phase(StrEnum):
    """The state of a job in one word, derived from the conditions, for people."""

    PENDING = "Pending"
    STARTING = "Starting"
    RUNNING = "Running"
    RESTARTING = "Restarting"
    SUSPENDED = "Suspended"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class ConditionType(StrEnum):
    """Types of `status.conditions`."""

    CREATED = "Created"
    RUNNING = "Running"
    RESTARTING = "Restarting"
    SUSPENDED = "Suspended"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    INVALID = "Invalid"


class Reason(StrEnum):
    """Reasons of conditions; docs/reference/conditions-and-events.md explains each."""

    # Created
    JOB_CREATED = "JobCreated"
    # Running
    ALL_READY = "AllReady"
    STARTING = "Starting"
    NOT_READY = "NotReady"
    RESTARTING = "Restarting"
    SCALED = "Scaled"
    NO_REPLICAS = "NoReplicas"
    IMAGE_PULL_FAILED = "ImagePullFailed"
    UNSCHEDULABLE = "Unschedulable"
    CONTAINER_CONFIG = "ContainerConfigError"
    QUOTA_EXCEEDED = "QuotaExceeded"
    NAME_TAKEN = "NameTaken"
    POD_REFUSED = "PodRefused"
    NAMESPACE_TERMINATING = "NamespaceTerminating"
    FINISHED = "Finished"
    # Restarting
    RECOVERED = "Recovered"
    # Suspended
    SUSPENDED = "Suspended"
    RESUMED = "Resumed"
    # Succeeded
    CHIEF_SUCCEEDED = "ChiefSucceeded"
    WORKER_SUCCEEDED = "WorkerSucceeded"
    ALL_WORKERS_SUCCEEDED = "AllWorkersSucceeded"
    # Failed
    MAX_RESTARTS_EXCEEDED = "MaxRestartsExceeded"
    RESTART_POLICY_NEVER = "RestartPolicyNever"
    PERMANENT_FAILURE = "PermanentFailure"
    FAILED_BY_RULE = "FailedByRule"
    DEADLINE_EXCEEDED = "DeadlineExceeded"
    START_DEADLINE_EXCEEDED = "StartDeadlineExceeded"
    # Invalid
    INVALID = "Invalid"
    BAD_PATTERN = "BadPattern"
    SPEC_CHANGED = "SpecChanged"
    VALID = "Valid"


class Cause(StrEnum):
    """Why an incident happened; keys of `status.restarts.byCause`."""

    OUT_OF_MEMORY = "OutOfMemory"
    USER_ERROR = "UserError"
    NODE_LOST = "NodeLost"
    PREEMPTED = "Preempted"
    EVICTED = "Evicted"
    REJECTED = "Rejected"
    DELETED = "Deleted"
    STALLED = "Stalled"
    PREFLIGHT_FAILED = "PreflightFailed"
    KILLED = "Killed"
    PEER_LOST = "PeerLost"
    UNKNOWN = "Unknown"
    SCALED = "Scaled"


class Charge(StrEnum):
    """Whether a restart counts towards `failurePolicy.maxRestarts`."""

    CHARGED = "Charged"
    FREE = "Proven"
    """Not counted: there is evidence of a disruption."""
    FREE_LIMITED = "Unproven"
    """Not counted, but only ten times in a row."""


class EventReason(StrEnum):
    """Reasons of the Kubernetes events on a job."""

    CREATED = "Created"
    STARTED = "Started"
    POD_FAILED = "PodFailed"
    RESTARTING = "Restarting"
    RECOVERED = "Recovered"
    SUSPENDED = "Suspended"
    RESUMED = "Resumed"
    SCALED = "Scaled"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    INVALID = "Invalid"
    NO_CHECKPOINTS = "NoCheckpoints"
    TEMPLATE_OVERRIDDEN = "TemplateOverridden"
