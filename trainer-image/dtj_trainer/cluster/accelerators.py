"""Whether this container has GPUs or TPUs, from the device files that drivers and device plugins put into it.

Standard library only: the supervisor uses it.
"""

import os
from collections.abc import Mapping
from fnmatch import filter as matching
from typing import Final

from dtj_trainer.errors import PreflightFailed

DEVICES = "/dev"
NODES: Final = ("nvidia[0-9]*", "kfd", "dxg")
"""NVIDIA's, AMD's, and those of Windows' Linux subsystem."""


def gpu_there() -> bool:
    """Return whether there is at least one GPU."""
    return any(_there(node) for node in NODES)


def tpu_there(environment: Mapping[str, str]) -> bool:
    """Return whether there is at least one chip of a TPU.

    It appears as `/dev/accel*` (v2 to v4), or as `/dev/vfio/<number>` (v5 and later) together with TPU_WORKER_ID: other
    devices are behind vfio too.
    """
    return _there("accel*") or ("TPU_WORKER_ID" in environment and _there("[0-9]*", "vfio"))


def require(gpus: int | None) -> None:
    """Refuse a container without the GPUs that it requires.

    Raises:
        PreflightFailed: there is no GPU.
    """
    if gpus and not gpu_there():
        raise PreflightFailed(
            f"{gpus} GPU{'s were' if gpus > 1 else ' was'} asked for and there is none here; "
            "run it on a node with GPUs, or remove the GPU limit"
        )


def _there(node: str, folder: str = "") -> bool:
    try:
        return bool(matching(os.listdir(f"{DEVICES}/{folder}"), node))
    except OSError:
        return False
