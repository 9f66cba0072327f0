"""Whether this container has GPUs, told by the device files that drivers and device plugins put into it.

Standard library only: the supervisor asks.
"""

from pathlib import Path
from typing import Final

from dtj_trainer.errors import PreflightFailed

NODES: Final = ("nvidia[0-9]*", "kfd", "dxg")
"""NVIDIA's, AMD's, and those of Windows' Linux subsystem."""


def gpu_there(devices: Path = Path("/dev")) -> bool:
    """Whether there is at least one."""
    return any(any(devices.glob(node)) for node in NODES)


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
