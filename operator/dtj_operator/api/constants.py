"""Group, kind, labels, ports and well-known names of the resource."""

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
