"""This pod's place in the job, and how its role takes part."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from dtj_trainer.cluster.tf_config import LAST_PORT, Task, TfConfig, read_tf_config
from dtj_trainer.contract import Environment
from dtj_trainer.errors import PreflightFailed
from dtj_trainer.supervisor.membership import Identity

DISTRIBUTIONS: Final = ("tensorflow", "tensorflow-cpu", "tensorflow-tpu", "tf-nightly")


class Part(StrEnum):
    """What a pod does in its job."""

    ALONE = "alone"
    """Runs the program and waits for nobody."""
    MEMBER = "member"
    """Runs the program with all others: they form, and fall, together."""
    COORDINATOR = "coordinator"
    """Runs the program once every server serves."""
    SERVER = "server"
    """Serves; the program is not run."""


@dataclass(frozen=True, slots=True)
class Place:
    """Who this pod is."""

    config: TfConfig
    part: Part
    strategy: str
    """Resolved strategy type; empty when nobody said."""
    peers: tuple[Task, ...]
    """Those to wait for."""
    endpoints: Mapping[Task, tuple[str, int]]
    """HTTP host and port of every other task of the cluster."""
    uid: str
    attempt: int

    @property
    def task(self) -> Task:
        """Role and index."""
        return self.config.task

    def identity(self) -> Identity:
        """What this process tells its peers at first."""
        return Identity(
            uid=self.uid,
            attempt=self.attempt,
            role=self.task.role,
            index=self.task.index,
            incarnation=secrets.token_hex(6),
            tensorflow=tensorflow_version(),
        )


def read_place(environment: Mapping[str, str], http_port: int) -> Place:
    """The place that the environment describes; raises PreflightFailed if it is broken."""
    config = read_tf_config(environment)
    strategy = _strategy(environment)
    part = _part(config, strategy)
    wanted = {
        Part.MEMBER: config.training_tasks,
        Part.COORDINATOR: config.serving_tasks,
    }.get(part, ())
    peers = tuple(task for task in wanted if task != config.task)
    everybody = (Task(role, i) for role, found in config.cluster.items() for i in range(len(found)))
    ports = _object(environment, "DTJ_PEER_PORTS")
    attempt = environment.get(Environment.ATTEMPT, "") or "0"
    if not attempt.isdigit():
        raise PreflightFailed(
            f"{Environment.ATTEMPT} is {attempt!r}, not a number; let the operator write it, or unset it"
        )
    return Place(
        config=config,
        part=part,
        strategy=strategy,
        peers=peers,
        endpoints={task: _endpoint(config, task, ports, http_port) for task in everybody if task != config.task},
        uid=environment.get(Environment.UID, ""),
        attempt=int(attempt),
    )


def _strategy(environment: Mapping[str, str]) -> str:
    return str(_object(environment, Environment.STRATEGY).get("type", ""))


def _part(config: TfConfig, strategy: str) -> Part:
    cluster, role = config.cluster, config.task.role
    if role == "evaluator":
        return Part.ALONE
    if strategy == "ParameterServer" or (not strategy and cluster.get("ps")):
        if role not in {"chief", "worker", "ps"} or not cluster.get("ps"):
            message = "ParameterServer needs at least one ps in the cluster; add spec.replicaSpecs.ps"
            raise PreflightFailed(message)
        return Part.COORDINATOR if role == "chief" else Part.SERVER
    if strategy == "TPU":
        return _part_of_slice(config)
    if role == "ps":
        return Part.SERVER if not strategy else Part.ALONE
    several = len(config.training_tasks) > 1 and not cluster.get("ps")
    return Part.MEMBER if several else Part.ALONE


def _part_of_slice(config: TfConfig) -> Part:
    """One host runs the program by itself; several serve, and the chief's program drives their chips."""
    hosts, role = config.cluster.get("worker", ()), config.task.role
    if not config.cluster.get("chief"):
        if len(hosts) > 1:
            message = (
                f"TPU over {len(hosts)} workers needs a chief, whose program they serve; add spec.replicaSpecs.chief"
            )
            raise PreflightFailed(message)
        return Part.ALONE
    if role == "chief":
        return Part.COORDINATOR if hosts else Part.ALONE
    return Part.SERVER


def _endpoint(config: TfConfig, task: Task, ports: Mapping[str, object], http_port: int) -> tuple[str, int]:
    address = config.address(task)
    port = str(ports.get(address, http_port))
    if not port.isdigit():
        raise PreflightFailed(f"DTJ_PEER_PORTS has {port!r} for {address}, not a port; give one from 1 to {LAST_PORT}")
    return config.endpoint(task)[0], int(port)


def _object(environment: Mapping[str, str], name: str) -> Mapping[str, object]:
    text = environment.get(name, "").strip()
    if not text:
        return {}
    try:
        value = json.loads(text)
    except ValueError as error:
        raise PreflightFailed(f"{name} is not JSON ({error}); let the operator write it, or unset it") from None
    if not isinstance(value, dict):
        raise PreflightFailed(f"{name} is not a JSON object; let the operator write it, or unset it")
    return value


def tensorflow_version() -> str:
    """The installed TensorFlow's version, without importing it; empty if there is none."""
    from importlib import metadata  # here, as nobody asks before the zygote has been started

    for name in DISTRIBUTIONS:
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return ""


def slice_environment(place: Place) -> dict[str, str]:
    """TPU_WORKER_… for libtpu on the hosts of a slice, which does not read TF_CONFIG."""
    if place.strategy != "TPU" or place.part is not Part.SERVER:
        return {}
    hosts = (place.config.endpoint(task)[0] for task in place.config.serving_tasks)
    return {"TPU_WORKER_ID": str(place.task.index), "TPU_WORKER_HOSTNAMES": ",".join(hosts)}


def dtensor_environment(config: TfConfig) -> dict[str, str]:
    """DTENSOR_… for programs that use DTensor, which does not read TF_CONFIG."""
    workers = config.cluster.get("worker", ())
    if config.task.role != "worker" or config.cluster.get("chief") or len(workers) <= 1:
        return {}
    return {
        "DTENSOR_CLIENT_ID": str(config.task.index),
        "DTENSOR_NUM_CLIENTS": str(len(workers)),
        "DTENSOR_JOB_NAME": "worker",
        "DTENSOR_JOBS": ",".join(workers),
    }
