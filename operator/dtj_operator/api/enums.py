"""The enums of spec, status, conditions and events. Other tools may rely on their values."""

from __future__ import annotations

from enum import StrEnum


class Role(StrEnum):
    """The role of a pod: a key of `spec.replicaSpecs` and a task type of TF_CONFIG."""

    CHIEF = "chief"
    WORKER = "worker"
    PS = "ps"
    EVALUATOR = "evaluator"


TRAINING_ROLES = (Role.CHIEF, Role.WORKER, Role.PS)
"""The roles that take part in training; an evaluator does not."""


class StrategyType(StrEnum):
    """The tf.distribute strategy of a job."""

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
    """The operator's action when the main container of a replica ends with an exit code other than 0."""

    ON_FAILURE = "OnFailure"
    ALWAYS = "Always"
    NEVER = "Never"
    EXIT_CODE = "ExitCode"


class SuccessType(StrEnum):
    """The replicas whose success makes the job succeed."""

    CHIEF = "Chief"
    ALL_WORKERS = "AllWorkers"


class CleanPodPolicy(StrEnum):
    """The pods of a finished job that are deleted."""

    RUNNING = "Running"
    ALL = "All"
    NONE = "None"


class RestartScope(StrEnum):
    """The pods that a restart replaces."""

    AUTO = "Auto"
    POD = "Pod"
    ROLE = "Role"
    JOB = "Job"


class RuleAction(StrEnum):
    """The action of a failure rule whose condition matches the root cause."""

    IGNORE = "Ignore"
    RESTART_POD = "RestartPod"
    RESTART_ROLE = "RestartRole"
    RESTART_JOB = "RestartJob"
    FAIL_JOB = "FailJob"


class Phase(StrEnum):
    """The state of a job in one word, for people; programs read the conditions."""

    PENDING = "Pending"
    STARTING = "Starting"
    RUNNING = "Running"
    RESTARTING = "Restarting"
    SUSPENDED = "Suspended"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class ConditionType(StrEnum):
    """The types of `status.conditions`."""

    CREATED = "Created"
    RUNNING = "Running"
    RESTARTING = "Restarting"
    SUSPENDED = "Suspended"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    INVALID = "Invalid"


class Reason(StrEnum):
    """The reasons of conditions; docs/reference/conditions-and-events.md explains each."""

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
    STATUS_OF_LATER_VERSION = "StatusOfLaterVersion"
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
    TF_CONFIG_TOO_LONG = "TFConfigTooLong"
    BAD_PROFILE = "BadProfile"
    SPEC_CHANGED = "SpecChanged"
    VALID = "Valid"


FAILED_REASONS = (
    Reason.MAX_RESTARTS_EXCEEDED,
    Reason.RESTART_POLICY_NEVER,
    Reason.PERMANENT_FAILURE,
    Reason.FAILED_BY_RULE,
    Reason.DEADLINE_EXCEEDED,
    Reason.START_DEADLINE_EXCEEDED,
)
"""The reasons of the condition Failed."""


class Cause(StrEnum):
    """The cause of an incident; a key of `status.restarts.byCause`."""

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
    """The cost of a restart: whether it counts towards `failurePolicy.maxRestarts`."""

    CHARGED = "Charged"
    FREE = "Proven"
    """Not counted: there is evidence of a disruption."""
    FREE_LIMITED = "Unproven"
    """Not counted, but only ten times in a row."""


class EventReason(StrEnum):
    """The reasons of the Kubernetes events of a job."""

    CREATED = "Created"
    STARTED = "Started"
    POD_FAILED = "PodFailed"
    RESTARTING = "Restarting"
    RECOVERED = "Recovered"
    RECOVERED_IN_PLACE = "RecoveredInPlace"
    SUSPENDED = "Suspended"
    RESUMED = "Resumed"
    SCALED = "Scaled"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    INVALID = "Invalid"
    NO_CHECKPOINTS = "NoCheckpoints"
    TEMPLATE_OVERRIDDEN = "TemplateOverridden"
