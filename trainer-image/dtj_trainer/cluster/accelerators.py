"""Whether this container has GPUs or TPUs, from the device files that drivers and device plugins put into it.

Standard library only: the supervisor asks.
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
    """Whether there is at least one."""
    return any(_there(node) for node in NODES)


def tpu_there(environment: Mapping[str, str]) -> bool:
    """Whether there is at least one chip of a TPU.

    It shows as `/dev/accel*` (v2 to v4), or as `/dev/vfio/<number>` (v5 and later) together with TPU_WORKER_ID: other
    devices are behind vfio too.
    """
    return _there("accel*") or ("TPU_WORKER_ID" in environment and _there("[0-9]*", "vfio"))


def require(gpus: int | None) -> None:
    """Refuse a container without any of the GPUs that it should have, whatever its program is.

    Raises:
        PreflightFailed: there is none.
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
