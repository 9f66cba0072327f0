"""What `dtj-run` does after the start of the zygote: settings, checks, supervising the program to its end."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

from dtj_trainer.cluster import accelerators
from dtj_trainer.cluster import environment as task_environment
from dtj_trainer.cluster.cgroup import Cgroup
from dtj_trainer.cluster.environment import Environment
from dtj_trainer.cluster.task_mode import TaskMode, slice_environment, task_mode
from dtj_trainer.contract import EXIT_INTERNAL_ERROR, EXIT_USAGE, ExitClass
from dtj_trainer.errors import PreflightFailed, first_line
from dtj_trainer.preload.spawn import Spawned, defaults
from dtj_trainer.supervisor import settings as settings_module
from dtj_trainer.supervisor import termination_message
from dtj_trainer.supervisor.http.server import HttpServer
from dtj_trainer.supervisor.process_pool import ProcessPool
from dtj_trainer.supervisor.program import may_preload
from dtj_trainer.supervisor.settings import Invocation, Settings, variable
from dtj_trainer.supervisor.supervisor import Supervisor
from dtj_trainer.supervisor.termination_message import TerminationMessage, print_line


def main(words: Sequence[str], zygote: Spawned | None, early: Sequence[int]) -> int:
    """Run to the end; returns the exit code of the container.

    `words`: flags, program and its arguments; `early`: signals that have come, and may still, before they are handled.
    """
    log = settings_module.termination_log(words)
    is_first = termination_message.claim(log)
    try:
        ending = supervise(settings_module.parse(words), zygote, early, is_first=is_first)
    except PreflightFailed as error:
        ending = TerminationMessage(ExitClass.PREFLIGHT_FAILED, error.exit_code if is_first else EXIT_USAGE, str(error))
        print_line(str(error))
    except Exception as error:  # noqa: BLE001 - whatever it is, people and the operator have to hear of it
        ending = _internal_error(error)
    finally:
        if zygote is not None:
            zygote.dismiss()
    if is_first:
        termination_message.write(ending, log)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(ending.exit_code)


def _internal_error(error: Exception) -> TerminationMessage:
    """Print an error of the supervisor itself, and return how the container ends."""
    import traceback  # seldom

    frame = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(frame.filename).name}, line {frame.lineno}"
    text = f"dtj-run itself failed: {type(error).__name__}: {first_line(error)} ({where}); please report this fault"
    print_line(text)
    traceback.print_exception(error)
    return TerminationMessage(ExitClass.KILLED, EXIT_INTERNAL_ERROR, text, exception=type(error).__name__)


def supervise(
    invocation: Invocation, zygote: Spawned | None, early: Sequence[int], *, is_first: bool
) -> TerminationMessage:
    """Check what can be checked at once, then supervise the program until it ends.

    Raises PreflightFailed for a broken environment, a missing program, a taken port, and where this is not the first
    `dtj-run` of its container.
    """
    if not is_first:
        raise PreflightFailed(
            "dtj-run runs in this container already, and starts no second program; to ask it for something, use "
            "dtj-run checkpoint or dtj-run profile"
        )
    settings, program = invocation.settings, invocation.program
    environment = task_environment.read(os.environ)
    mode = task_mode(environment)
    accelerators.require(settings.gpus)
    if program is None:
        mode = _mode_without_program(environment, mode)
    elif mode is TaskMode.SERVER:
        program = None
    else:
        program.check()
    preload = may_preload(settings.preload, program, environment.strategy_type, os.environ)
    variables = program_environment(settings, environment, mode, os.environ)
    with closing(ProcessPool(variables, zygote, preload=preload)) as pool:
        pool.poll(time.monotonic())  # TensorFlow is imported from now on
        supervisor = Supervisor(settings, environment, mode, program, pool)
        supervisor.inbox.handle_signals(early)
        threading.excepthook = lambda thread: supervisor.inbox.fail(thread.exc_value)
        HttpServer(settings.port, supervisor.endpoints).open()
        return supervisor.run()


def _mode_without_program(environment: Environment, mode: TaskMode) -> TaskMode:
    """Return SERVER for a task without a program, which has to be one that serves."""
    task, has_servers = environment.task, bool(environment.tf_config.cluster.get("ps"))
    if mode is TaskMode.SERVER or task.role == "ps" or (task.role == "worker" and has_servers):
        return TaskMode.SERVER
    raise PreflightFailed(
        f"there is nothing to run: {task} serves nobody, so it needs a program; usage: {settings_module.USAGE}"
    )


def program_environment(
    settings: Settings, environment: Environment, mode: TaskMode, variables: Mapping[str, str]
) -> dict[str, str]:
    """Return the program's environment: the variables that are there, and the settings as DTJ_… variables."""
    cpus = Cgroup().cpus()
    threads = settings.threads or cpus
    given = {
        "heartbeat_seconds": settings.heartbeat_seconds,
        "start_seconds": settings.start_seconds,
        "stall_seconds": settings.stall_seconds,
        "memory_growth": "true" if settings.memory_growth else None,
        "gpu_memory_limit_mb": settings.gpu_memory_limit_mb,
        "logical_devices": settings.logical_devices,
        "threads": settings.threads,  # the limit is found by the program too, which may pin its threads instead
        "profile_steps": settings.profile_steps,
        "gpus": settings.gpus,
        "deterministic": "true" if settings.deterministic else None,
    }
    ours = {variable(name): f"{value}" for name, value in given.items() if value is not None}
    found = slice_environment(environment, mode)
    if settings.threads or cpus < (os.cpu_count() or 1):
        found |= {
            "TF_NUM_INTRAOP_THREADS": f"{threads}",
            "TF_NUM_INTEROP_THREADS": f"{max(2, threads)}",
        }
    return {**defaults({**found, **variables}), **ours}
