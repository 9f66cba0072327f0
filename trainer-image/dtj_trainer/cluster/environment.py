"""Reads the DTJ_ variables and TF_CONFIG, which the operator and `dtj-run` set, once.

Without these variables the program runs as a single process, without cluster and checkpoints, as on a laptop.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from dtj_trainer.cluster.tf_config import LAST_PORT, Task, TfConfig, read_tf_config
from dtj_trainer.contract import job_hash
from dtj_trainer.errors import PreflightFailed

DISTRIBUTIONS: Final = ("tensorflow", "tensorflow-cpu", "tensorflow-tpu", "tf-nightly")
"""What TensorFlow is installed as."""


@dataclass(frozen=True, slots=True)
class CheckpointSettings:
    """The value of DTJ_CHECKPOINT: where and how often to save. Without a directory nothing is saved."""

    directory: str = ""
    every_steps: int = 0
    every_seconds: float = 60.0
    keep: int = 3
    log_directory: str = ""

    @property
    def logs(self) -> str:
        """The directory of event files; empty without a checkpoint directory."""
        return self.log_directory or (f"{self.directory.rstrip('/')}/logs" if self.directory else "")


@dataclass(frozen=True, slots=True)
class DeviceSettings:
    """The settings of devices and threads; None = not set."""

    gpus: int = 0
    memory_growth: bool = False
    gpu_memory_limit_mb: int | None = None
    logical_devices: int | None = None
    threads: int | None = None


@dataclass(frozen=True, slots=True)
class Environment:
    """The settings of this process."""

    job: str = ""
    uid: str = ""
    """The secret of the job's pods; what may be seen of it is `job_hash`."""
    attempt: int = 0
    tf_config: TfConfig = field(default_factory=lambda: TfConfig({}, Task("worker", 0)))
    strategy: Mapping[str, Any] = field(default_factory=dict)
    peer_ports: Mapping[str, int] = field(default_factory=dict)
    """HTTP ports of other pods, by their address in TF_CONFIG; only where they differ from the usual one."""
    checkpoint: CheckpointSettings = field(default_factory=CheckpointSettings)
    devices: DeviceSettings = field(default_factory=DeviceSettings)
    deterministic: bool = False
    heartbeat_seconds: float = 3.0
    start_seconds: float = 900.0
    profile_steps: tuple[int, int] | None = None
    """Profile the steps after the first up to the second."""
    stall_seconds: float | None = None
    """Without a step for so long, a process counts as stuck; None: ten median steps and 30 s."""

    @property
    def job_hash(self) -> str:
        """The hash that stands for the job in files, in /status and in messages; empty without a UID."""
        return job_hash(self.uid)

    @property
    def role(self) -> str:
        return self.tf_config.task.role

    @property
    def index(self) -> int:
        return self.tf_config.task.index

    @property
    def task(self) -> Task:
        """The role and index of this process."""
        return self.tf_config.task

    @property
    def strategy_type(self) -> str:
        """The strategy that the operator has chosen; empty without one."""
        return str(self.strategy.get("type", ""))

    def http_endpoints(self, port: int) -> dict[Task, tuple[str, int]]:
        """Return HTTP host and port of every other task of the cluster."""
        config = self.tf_config
        tasks = [Task(role, i) for role, found in config.cluster.items() for i in range(len(found))]
        return {
            task: (config.endpoint(task)[0], self.peer_ports.get(config.address(task), port))
            for task in tasks
            if task != config.task
        }

    @property
    def trainers(self) -> int:
        """The number of processes that run the program, chief and workers; 1 without a cluster."""
        return max(1, len(self.tf_config.training_tasks))

    def members(self, role: str) -> int:
        """Return the number of tasks of a role in the cluster."""
        return len(self.tf_config.cluster.get(role, ()))

    @property
    def is_chief(self) -> bool:
        """The chief, or worker 0 where there is none: it writes, and hosts the coordination service."""
        return self.tf_config.is_leader

    @property
    def rank(self) -> int:
        """The rank among the processes that train: the chief first, then the workers."""
        return self.index if self.role == "chief" else self.index + self.members("chief")


def read(env: Mapping[str, str] | None = None) -> Environment:
    """Read the environment.

    Raises:
        PreflightFailed: the value of a variable is invalid.
    """
    env = os.environ if env is None else env
    return Environment(
        job=env.get("DTJ_JOB", ""),
        uid=env.get("DTJ_UID", ""),
        attempt=_attempt(env),
        tf_config=read_tf_config(env),
        strategy=_json(env, "DTJ_STRATEGY"),
        peer_ports=_peer_ports(env),
        checkpoint=_checkpoint(env),
        devices=_devices(env),
        deterministic=_truth(env, "DTJ_DETERMINISTIC", default=False),
        heartbeat_seconds=_number(env, "DTJ_HEARTBEAT_SECONDS", 3.0),
        start_seconds=_number(env, "DTJ_START_SECONDS", 900.0),
        profile_steps=_range(env, "DTJ_PROFILE_STEPS"),
        stall_seconds=_number(env, "DTJ_STALL_SECONDS", 0.0) or None,
    )


def _attempt(env: Mapping[str, str]) -> int:
    text = env.get("DTJ_ATTEMPT", "") or "0"
    if not text.isdigit():
        raise PreflightFailed(f"DTJ_ATTEMPT is {text!r}, not a number; let the operator write it, or unset it")
    return int(text)


def _peer_ports(env: Mapping[str, str]) -> dict[str, int]:
    ports = {address: str(port) for address, port in _json(env, "DTJ_PEER_PORTS").items()}
    for address, port in ports.items():
        if not port.isdigit():
            raise PreflightFailed(
                f"DTJ_PEER_PORTS has {port!r} for {address}, not a port; give one from 1 to {LAST_PORT}"
            )
    return {address: int(port) for address, port in ports.items()}


def _checkpoint(env: Mapping[str, str]) -> CheckpointSettings:
    value = _json(env, "DTJ_CHECKPOINT")
    default = CheckpointSettings()
    seconds = value.get("everySeconds")
    try:
        return CheckpointSettings(
            directory=str(value.get("directory") or ""),
            every_steps=int(value.get("everySteps") or 0),
            every_seconds=float(default.every_seconds if seconds is None else seconds),
            keep=max(1, int(value.get("keep") or default.keep)),
            log_directory=env.get("DTJ_LOG_DIR", ""),
        )
    except (TypeError, ValueError) as error:
        raise PreflightFailed(
            f"DTJ_CHECKPOINT holds a value of the wrong kind ({error}); let the operator write it, or unset it"
        ) from error


def _devices(env: Mapping[str, str]) -> DeviceSettings:
    return DeviceSettings(
        gpus=_whole(env, "DTJ_GPUS", 0),
        memory_growth=_truth(env, "DTJ_MEMORY_GROWTH", default=False),
        gpu_memory_limit_mb=_whole(env, "DTJ_GPU_MEMORY_LIMIT_MB", 0) or None,
        logical_devices=_whole(env, "DTJ_LOGICAL_DEVICES", 0) or None,
        threads=_whole(env, "DTJ_THREADS", 0) or None,
    )


def _json(env: Mapping[str, str], name: str) -> Mapping[str, Any]:
    text = env.get(name, "").strip()
    if not text:
        return {}
    try:
        value = json.loads(text)
    except ValueError as error:
        raise PreflightFailed(f"{name} is no valid JSON ({error}); let the operator write it, or unset it") from error
    if not isinstance(value, dict):
        raise PreflightFailed(f"{name} is no JSON object; let the operator write it, or unset it")
    return value


def _whole(env: Mapping[str, str], name: str, default: int) -> int:
    return int(_number(env, name, default))


def _number(env: Mapping[str, str], name: str, default: float) -> float:
    text = env.get(name, "").strip()
    if not text:
        return default
    try:
        return float(text)
    except ValueError as error:
        raise PreflightFailed(f"{name} is {text!r}, which is no number; set a number or unset it") from error


def _range(env: Mapping[str, str], name: str) -> tuple[int, int] | None:
    text = env.get(name, "").strip()
    first, _, last = text.partition(":")
    if first.isdecimal() and last.isdecimal() and int(first) < int(last):
        return int(first), int(last)
    if text:
        raise PreflightFailed(f"{name} is {text!r}, which is no range of steps; write first:last, as in 100:120")
    return None


def _truth(env: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = env.get(name, "").strip().lower()
    return default if not text else text not in {"0", "false", "no", "off"}


def tensorflow_version() -> str:
    """Return the installed TensorFlow's version, without importing it; empty if there is none."""
    from importlib import metadata  # here, as nobody asks before the zygote has been started

    for name in DISTRIBUTIONS:
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return ""
