"""Configures devices, memory and threads of this process, before TensorFlow's first op."""

import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from dtj_trainer.cluster.accelerators import gpu_there
from dtj_trainer.cluster.cgroup import Cgroup
from dtj_trainer.cluster.environment import DeviceSettings
from dtj_trainer.compat.types import Device
from dtj_trainer.errors import PreflightFailed

CUDA_ABSENT: Final = b"failed call to cuInit"


def configure(settings: DeviceSettings, *, deterministic: bool = False) -> None:
    """Apply memory growth or a cap, logical devices and thread counts.

    Deterministic runs are pinned to one thread an op: the number of threads decides the order of sums.

    Raises:
        PreflightFailed: a GPU was asked for and there is none, or TensorFlow already ran an op and results depend on
            what is set.
    """
    import tensorflow as tf

    gpus = list_gpus()
    if settings.gpus and len(gpus) < settings.gpus:
        raise PreflightFailed(
            f"{settings.gpus} GPUs were asked for and TensorFlow sees {len(gpus)}; "
            "use an image with GPU support and check the driver, or remove the GPU limit"
        )
    try:
        _limit_memory(gpus, settings)
        _split(gpus or tf.config.list_physical_devices("CPU"), settings, on_gpu=bool(gpus))
        _threads(settings, deterministic=deterministic)
    except RuntimeError as error:
        if "initializ" not in str(error):
            raise
        raise PreflightFailed(
            "TensorFlow ran an op before devices were configured; call dtj.init() first, "
            "before any model, dataset or tensor is made"
        ) from error


def list_gpus() -> Sequence[Device]:
    """Return the GPUs that TensorFlow sees.

    Where there is none, the first call makes a TensorFlow with CUDA log `failed call to cuInit` as an error. That is
    left out of stderr.
    """
    import tensorflow as tf

    if gpu_there():
        return tf.config.list_physical_devices("GPU")
    with _stderr_without(CUDA_ABSENT):
        return tf.config.list_physical_devices("GPU")


@contextmanager
def _stderr_without(words: bytes) -> Iterator[None]:
    """Leave out the lines with these words of what is written to file descriptor 2."""
    sys.stderr.flush()
    stderr = os.dup(2)
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
            held.seek(0)
            os.write(2, b"".join(line for line in held if words not in line))


def _limit_memory(gpus: Sequence[Device], settings: DeviceSettings) -> None:
    import tensorflow as tf

    if settings.gpu_memory_limit_mb or (settings.logical_devices and gpus):
        return  # a cap and growth exclude each other in TensorFlow
    if settings.memory_growth:  # else the program, or TF_FORCE_GPU_ALLOW_GROWTH, may have asked for it
        for gpu in gpus:
            tf.config.experimental.set_memory_growth(gpu, True)


def _split(devices: Sequence[Device], settings: DeviceSettings, *, on_gpu: bool) -> None:
    import tensorflow as tf

    count = settings.logical_devices or 1
    limit = settings.gpu_memory_limit_mb if on_gpu else None
    if count == 1 and limit is None:
        return
    if count > 1 and on_gpu and limit is None:
        raise PreflightFailed("--logical-devices on a GPU needs --gpu-memory-limit-mb, the share of each one")
    for device in devices:
        parts = [tf.config.LogicalDeviceConfiguration(memory_limit=limit) for _ in range(count)]
        tf.config.set_logical_device_configuration(device, parts)


def _threads(settings: DeviceSettings, *, deterministic: bool) -> None:
    import tensorflow as tf

    threads = settings.threads or (1 if deterministic else Cgroup().cpu_limit())
    if threads is None:
        return
    try:
        tf.config.threading.set_intra_op_parallelism_threads(threads)
        tf.config.threading.set_inter_op_parallelism_threads(max(2, threads))
    except RuntimeError:  # an op ran before, with the threads of TF_NUM_INTRAOP_THREADS, which dtj-run sets
        if deterministic:
            raise
