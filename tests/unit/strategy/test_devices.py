"""The devices of a process."""

import os
import sys
from types import SimpleNamespace

import pytest

from dtj_trainer.cluster import accelerators
from dtj_trainer.strategy import devices


@pytest.mark.skipif(accelerators.gpu_there(), reason="there is a GPU here")
def test_that_cuda_is_absent_is_no_error_where_there_is_no_gpu(capfd, monkeypatch):
    """As a TensorFlow with CUDA says it; the one of the tests has none."""

    def list_physical_devices(_kind: str) -> list[str]:
        os.write(2, b"one line\nE0000 cuda_platform.cc:52] failed call to cuInit: INTERNAL: CUDA error\nanother\n")
        return []

    config = SimpleNamespace(list_physical_devices=list_physical_devices)
    monkeypatch.setitem(sys.modules, "tensorflow", SimpleNamespace(config=config))
    assert devices.list_gpus() == []
    assert capfd.readouterr().err == "one line\nanother\n"
