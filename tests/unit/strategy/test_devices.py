"""The devices of a process."""

import os
import sys
from types import SimpleNamespace

import pytest

from dtj_trainer.cluster import accelerators
from dtj_trainer.cluster.environment import DeviceSettings
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


@pytest.mark.parametrize("asked", [True, False])
def test_memory_growth_is_turned_on_where_it_is_asked_for_and_else_left_as_the_program_has_set_it(asked, monkeypatch):
    grows: dict[str, bool] = {"gpu": True}  # as the program has set it
    called: list[bool] = []

    def set_memory_growth(gpu: str, enable: bool) -> None:  # noqa: FBT001 - TensorFlow's
        called.append(enable)
        grows[gpu] = enable

    config = SimpleNamespace(
        list_physical_devices=lambda _kind: ["gpu"], experimental=SimpleNamespace(set_memory_growth=set_memory_growth)
    )
    monkeypatch.setitem(sys.modules, "tensorflow", SimpleNamespace(config=config))
    monkeypatch.setattr(devices, "_threads", lambda _settings, deterministic: None)
    devices.configure(DeviceSettings(memory_growth=asked))
    assert (called, grows) == ([True] if asked else [], {"gpu": True})
