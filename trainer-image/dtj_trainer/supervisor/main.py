"""What `dtj-run` does, but for the start of the zygote: settings, checks, and the watch over the program to its end."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import closing

from dtj_trainer.cluster import accelerators
from dtj_trainer.cluster.cgroup import Cgroup
from dtj_trainer.cluster.task_mode import Part, Place, read_place, slice_environment
from dtj_trainer.contract import ExitClass
from dtj_trainer.errors import PreflightFailed
from dtj_trainer.preload.spawn import Spawned, defaults
from dtj_trainer.supervisor import settings as settings_module
from dtj_trainer.supervisor import termination_message
from dtj_trainer.supervisor.http.server import Desk
from dtj_trainer.supervisor.process_pool import Nursery
from dtj_trainer.supervisor.program import may_preload
from dtj_trainer.supervisor.settings import Invocation, Settings, variable
from dtj_trainer.supervisor.supervisor import Supervision
from dtj_trainer.supervisor.termination_message import Ending


def main(words: Sequence[str], zygote: Spawned | None, early: Sequence[int]) -> int:
    """Run to the end; the exit code of the container.

    `words`: flags, program and its arguments; `early`: signals that have come, and may still, before there is somebody
    to heed them.
    """
    try:
        ending = supervise(settings_module.parse(words), zygote, early)
    except PreflightFailed as error:
        ending = Ending(ExitClass.PREFLIGHT_FAILED, error.exit_code, str(error))
        sys.stderr.write(f"dtj: {error}\n")
        termination_message.write(ending, settings_module.termination_log(words))
    finally:
        if zygote is not None:
            zygote.dismiss()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(ending.exit_code)


def supervise(invocation: Invocation, zygote: Spawned | None, early: Sequence[int]) -> Ending:
    """Check what can be checked at once, then watch over the program until it ends.

    Raises PreflightFailed for a broken environment, a missing program or a taken port.
    """
    settings, program = invocation.settings, invocation.program
    place = read_place(os.environ, settings.port)
    accelerators.require(settings.gpus)
    if program is None:
        place = _serving(place)
    elif place.part is Part.SERVER:
        program = None
    else:
        program.check()
    preload = may_preload(settings.preload, program, place.strategy, os.environ)
    with closing(Nursery(child_environment(settings, place, os.environ), zygote, preload=preload)) as nursery:
        nursery.tend(time.monotonic())  # TensorFlow is imported from now on
        supervision = Supervision(settings, place, program, nursery)
        supervision.heed_signals(early)
        Desk(settings.port, supervision.facts).open()
        return supervision.run()


def _serving(place: Place) -> Place:
    """The place of a pod without a program: it has to be one that serves."""
    task = place.task
    serves = (
        place.part is Part.SERVER or task.role == "ps" or (task.role == "worker" and place.config.cluster.get("ps"))
    )
    if not serves:
        message = (
            f"there is nothing to run: {place.task} serves nobody, so it needs a program; "
            f"usage: {settings_module.USAGE}"
        )
        raise PreflightFailed(message)
    return Place(place.config, Part.SERVER, place.strategy, (), place.endpoints, place.uid, place.attempt)


def child_environment(settings: Settings, place: Place, environment: Mapping[str, str]) -> dict[str, str]:
    """The program's environment: what is there, and the settings as DTJ_… variables."""
    cpus = Cgroup().cpus()
    threads = settings.threads or cpus
    told = {
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
    ours = {variable(name): f"{value}" for name, value in told.items() if value is not None}
    found = slice_environment(place)
    if settings.threads or cpus < (os.cpu_count() or 1):
        found |= {
            "TF_NUM_INTRAOP_THREADS": f"{threads}",
            "TF_NUM_INTEROP_THREADS": f"{max(2, threads)}",
        }
    return {**defaults({**found, **environment}), **ours}
