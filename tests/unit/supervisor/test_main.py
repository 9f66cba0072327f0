"""The environment that the supervisor gives the program."""

from dtj_trainer.cluster import accelerators, environment
from dtj_trainer.cluster.task_mode import TaskMode
from dtj_trainer.supervisor.main import program_environment
from dtj_trainer.supervisor.settings import Settings


def test_the_program_is_told_what_a_flag_has_set():
    told = program_environment(
        Settings(stall_seconds=7.0, start_seconds=9.0), environment.read({}), TaskMode.SINGLE, {}
    )
    assert environment.read(told).stall_seconds == 7.0
    assert environment.read(told).start_seconds == 9.0
    assert environment.read(told).devices.threads is None  # so that a deterministic program gets one


def test_libtpu_is_loaded_only_where_there_are_chips_or_the_user_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(accelerators, "DEVICES", tmp_path)

    def loads(told: dict[str, str]) -> str | None:
        return program_environment(Settings(), environment.read({}), TaskMode.SINGLE, told).get("TPU_LOAD_LIBRARY")

    assert loads({}) == loads({"TPU_NAME": "grpc://10.0.0.1:8470"}) == "0"
    assert loads({"TPU_LOAD_LIBRARY": "1"}) == "1"
    (tmp_path / "accel0").touch()
    assert loads({}) is None
