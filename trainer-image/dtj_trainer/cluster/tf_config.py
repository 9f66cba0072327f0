"""TF_CONFIG as TensorFlow defines it: the tasks of the cluster, and the task of this process.

Values only; standard library only, because the supervisor reads it too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from dtj_trainer.errors import PreflightFailed

TRAINING_ROLES: Final = ("chief", "worker")
LAST_PORT: Final = 65535
ROLES: Final = ("chief", "worker", "ps", "evaluator")


@dataclass(frozen=True, slots=True, order=True)
class Task:
    """A task of the cluster."""

    role: str
    index: int

    def __str__(self) -> str:
        return f"{self.role} {self.index}"


EVALUATOR: Final = Task("evaluator", 0)
"""The job's evaluator, which no cluster names."""


@dataclass(frozen=True, slots=True)
class TfConfig:
    """The cluster, and the task of this process in it."""

    cluster: Mapping[str, tuple[str, ...]]
    """Role to the `host:port` of its tasks; empty without a cluster."""
    task: Task

    @property
    def leader(self) -> Task:
        """The task that hosts the coordination service: chief 0 if there is a chief, else worker 0."""
        return Task("chief" if self.cluster.get("chief") else "worker", 0)

    @property
    def is_leader(self) -> bool:
        """Whether this process is the leader."""
        return self.task == self.leader

    @property
    def training_tasks(self) -> tuple[Task, ...]:
        """Chief and workers, in rank order."""
        return tuple(Task(role, index) for role in TRAINING_ROLES for index in range(len(self.cluster.get(role, ()))))

    @property
    def serving_tasks(self) -> tuple[Task, ...]:
        """What serves a chief's program: workers and ps."""
        return tuple(Task(role, index) for role in ("worker", "ps") for index in range(len(self.cluster.get(role, ()))))

    def address(self, task: Task) -> str:
        """Return `host:port` of a task."""
        return self.cluster[task.role][task.index]

    def endpoint(self, task: Task) -> tuple[str, int]:
        """Return host and TensorFlow port of a task."""
        host, _, port = self.address(task).rpartition(":")
        return host.strip("[]"), int(port)

    def listener(self, strategy: str) -> tuple[str, int]:
        """Return host and port where a server listens once the cluster of this process is formed.

        TensorFlow has one in each process. A program that builds everything itself has at least the leader's: Keras on
        JAX has no other.
        """
        if strategy == "None" and self.training_tasks:
            return self.endpoint(self.leader)
        return "127.0.0.1", self.endpoint(self.task)[1] if self.task.role in self.cluster else 0

    def at(self, ports: Mapping[Task, int]) -> TfConfig:
        """Return the same hosts, at other ports for these tasks."""
        return self._with_addresses(lambda task, host, port: f"{host}:{ports.get(task, port)}")

    def on(self, hosts: Mapping[Task, str]) -> TfConfig:
        """Return the same ports, on other hosts for these tasks: names, or addresses of either kind."""
        bracketed = {task: f"[{host}]" if ":" in host else host for task, host in hosts.items()}
        return self._with_addresses(lambda task, host, port: f"{bracketed.get(task, host)}:{port}")

    def _with_addresses(self, address_of: Callable[[Task, str, str], str]) -> TfConfig:
        def moved(task: Task, address: str) -> str:
            host, _, port = address.rpartition(":")
            return address_of(task, host, port)

        cluster = {
            role: tuple(moved(Task(role, index), address) for index, address in enumerate(addresses))
            for role, addresses in self.cluster.items()
        }
        return TfConfig(cluster, self.task)

    def to_json(self) -> str:
        """Return the JSON that TensorFlow's resolver reads."""
        return json.dumps(
            {
                "cluster": {role: list(addresses) for role, addresses in self.cluster.items()},
                "task": {"type": self.task.role, "index": self.task.index},
            }
        )


def read_tf_config(environment: Mapping[str, str]) -> TfConfig:
    """Return TF_CONFIG of an environment, with DTJ_ROLE and DTJ_INDEX where it is absent.

    Raises PreflightFailed with one sentence when it is broken.
    """
    text = environment.get("TF_CONFIG", "").strip()
    if not text:
        return TfConfig({}, _task_of_environment(environment))
    try:
        config = json.loads(text)
    except ValueError as error:
        message = f"TF_CONFIG is not JSON ({error}); remove it or let the operator write it"
        raise PreflightFailed(message) from None
    if not isinstance(config, dict):
        raise PreflightFailed("TF_CONFIG is not a JSON object; remove it or let the operator write it")
    cluster = {
        role: addresses for role, given in _object(config, "cluster").items() if (addresses := _addresses(role, given))
    }
    task = _object(config, "task")
    if not task and not cluster:
        return TfConfig({}, _task_of_environment(environment))
    role = str(task.get("type", ""))
    try:
        index = int(str(task.get("index", 0)))
    except ValueError:
        message = (
            f"TF_CONFIG has task index {task.get('index')!r}, not a number; remove it or let the operator write it"
        )
        raise PreflightFailed(message) from None
    if role not in ROLES and role not in cluster:
        raise PreflightFailed(f"TF_CONFIG has task type {role!r}; it has to be one of {', '.join(ROLES)}")
    for name, addresses in cluster.items():
        for address in addresses:
            _check_address(name, address)
    if role != "evaluator" and cluster and not 0 <= index < len(cluster.get(role, ())):
        message = f"TF_CONFIG names this process {role} {index}, which its cluster does not have; correct its task"
        raise PreflightFailed(message)
    return TfConfig(cluster, Task(role, index))


def _object(config: Mapping[str, object], key: str) -> Mapping[str, object]:
    value = config.get(key, {})
    if not isinstance(value, dict):
        raise PreflightFailed(f"TF_CONFIG has a {key!r} that is not a JSON object; let the operator write it")
    return value


def _addresses(role: str, given: object) -> tuple[str, ...]:
    if not isinstance(given, list):
        raise PreflightFailed(f"TF_CONFIG has {role!r} in its cluster that is not a list; give host:port strings")
    return tuple(str(address) for address in given)


def _check_address(role: str, address: str) -> None:
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) <= LAST_PORT:
        message = f"TF_CONFIG has the address {address!r} for {role}; it has to be host:port"
        raise PreflightFailed(message)


def _task_of_environment(environment: Mapping[str, str]) -> Task:
    index = environment.get("DTJ_INDEX", "0") or "0"
    if not index.isdigit():
        raise PreflightFailed(f"DTJ_INDEX is {index!r}, not a number; let the operator write it, or unset it")
    return Task(environment.get("DTJ_ROLE") or "worker", int(index))
