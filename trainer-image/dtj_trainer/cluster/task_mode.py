"""The mode of a task: it runs the program alone, with all others or as coordinator, or it is a server."""

from __future__ import annotations

from enum import StrEnum

from dtj_trainer.cluster.environment import Environment
from dtj_trainer.cluster.tf_config import Task, TfConfig
from dtj_trainer.errors import PreflightFailed


class TaskMode(StrEnum):
    """The mode of a task in its job."""

    SINGLE = "single"
    """Runs the program without peers."""
    COLLECTIVE = "collective"
    """Runs the program with all others: they start, and restart, together."""
    COORDINATOR = "coordinator"
    """Runs the program once every server serves."""
    SERVER = "server"
    """Serves; the program is not run."""


def task_mode(environment: Environment) -> TaskMode:
    """Return the mode of this process's task.

    Raises PreflightFailed when the cluster lacks a role that its strategy needs.
    """
    config, strategy = environment.tf_config, environment.strategy_type
    cluster, role = config.cluster, config.task.role
    if role == "evaluator":
        return TaskMode.SINGLE
    if strategy == "ParameterServer" or (not strategy and cluster.get("ps")):
        if role not in {"chief", "worker", "ps"} or not cluster.get("ps"):
            message = "ParameterServer needs at least one ps in the cluster; add spec.replicaSpecs.ps"
            raise PreflightFailed(message)
        return TaskMode.COORDINATOR if role == "chief" else TaskMode.SERVER
    if strategy == "TPU":
        return _mode_in_slice(config)
    if role == "ps":
        return TaskMode.SERVER if not strategy else TaskMode.SINGLE
    several = len(config.training_tasks) > 1 and not cluster.get("ps")
    return TaskMode.COLLECTIVE if several else TaskMode.SINGLE


def _mode_in_slice(config: TfConfig) -> TaskMode:
    """Return the mode on a TPU slice: one host runs the program; several serve, and the chief's program drives them."""
    hosts, role = config.cluster.get("worker", ()), config.task.role
    if not config.cluster.get("chief"):
        if len(hosts) > 1:
            message = (
                f"TPU over {len(hosts)} workers needs a chief, whose program they serve; add spec.replicaSpecs.chief"
            )
            raise PreflightFailed(message)
        return TaskMode.SINGLE
    if role == "chief":
        return TaskMode.COORDINATOR if hosts else TaskMode.SINGLE
    return TaskMode.SERVER


def peers(config: TfConfig, mode: TaskMode) -> tuple[Task, ...]:
    """Return the tasks that one in this mode waits for."""
    wanted = {TaskMode.COLLECTIVE: config.training_tasks, TaskMode.COORDINATOR: config.serving_tasks}.get(mode, ())
    return tuple(task for task in wanted if task != config.task)


def slice_environment(environment: Environment, mode: TaskMode) -> dict[str, str]:
    """Return TPU_WORKER_… for libtpu on the hosts of a slice, which does not read TF_CONFIG."""
    if environment.strategy_type != "TPU" or mode is not TaskMode.SERVER:
        return {}
    config = environment.tf_config
    hosts = (config.endpoint(task)[0] for task in config.serving_tasks)
    return {"TPU_WORKER_ID": str(config.task.index), "TPU_WORKER_HOSTNAMES": ",".join(hosts)}


def dtensor_environment(config: TfConfig) -> dict[str, str]:
    """Return DTENSOR_… for programs that use DTensor, which does not read TF_CONFIG."""
    workers = config.cluster.get("worker", ())
    if config.task.role != "worker" or config.cluster.get("chief") or len(workers) <= 1:
        return {}
    return {
        "DTENSOR_CLIENT_ID": str(config.task.index),
        "DTENSOR_NUM_CLIENTS": str(len(workers)),
        "DTENSOR_JOB_NAME": "worker",
        "DTENSOR_JOBS": ",".join(workers),
    }
