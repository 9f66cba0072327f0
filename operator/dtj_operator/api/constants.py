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
NAME_MAX = 253
TEXT_MAX = 1024
PATTERN_MAX = 256
ROLES_MAX = 4
KEYS_MAX = 64
CONTAINERS_MAX = 32
ENVIRONMENT_MAX = 512
LEVELS_MAX = 200
"""Nesting depth of a pod template: ten times the deepest field of a pod, and less than the 255 that pydantic allows."""
