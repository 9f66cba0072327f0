"""Group, kind, labels and ports of the resource, and every limit on what a user may write."""

from __future__ import annotations

GROUP = "dtj.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
KIND = "DistributedTrainingJob"
PLURAL = "distributedtrainingjobs"
SINGULAR = "distributedtrainingjob"
SHORT_NAME = "dtj"
CATEGORIES = ("all", "training")

MANAGED_BY = "dtj.dev/operator"
"""The value of `spec.managedBy` that means this operator; empty means the same."""

LABEL_JOB_NAME = "dtj.dev/job-name"
LABEL_JOB_UID = "dtj.dev/job-uid"
LABEL_ROLE = "dtj.dev/role"
LABEL_INDEX = "dtj.dev/index"
LABEL_ATTEMPT = "dtj.dev/attempt"

PORT_NAME = "tf"
DEFAULT_PORT = 2222
DEFAULT_MAIN_CONTAINER = "tensorflow"
GPU_RESOURCES = ("nvidia.com/gpu", "amd.com/gpu")

# Limits on what a user may write. CEL rules need a limit on every list and text that they read.
SECONDS_MAX = 2_147_483_647
COUNT_MAX = 100_000
REPLICAS_MAX = 2_000
"""Replicas of one role: a pass looks at each of them, and every pod carries the addresses of all."""
TF_CONFIG_MAX = 131_000
"""Bytes of TF_CONFIG. Linux passes no environment string of more than 131,072 bytes to a program."""
NAME_MAX = 253
TEXT_MAX = 1024
TOPOLOGY_PATTERN = "^[1-9][0-9]{0,2}(x[1-9][0-9]{0,2}){1,2}$"
"""Chips of a TPU slice in two or three dimensions."""
PATTERN_MAX = 256
ROLES_MAX = 4
KEYS_MAX = 64
CONTAINERS_MAX = 32
ENVIRONMENT_MAX = 512
SERVER_MESSAGE_MAX = 1024
"""Characters that are kept of a message about a pod; messages go into status."""
TERMINATION_MESSAGE_MAX = 4096
"""Characters that are kept of a termination message; the kubelet cuts at as many bytes."""
LEVELS_MAX = 200
"""Nesting depth of a pod template: ten times the deepest field of a pod, and less than the 255 that pydantic allows."""
