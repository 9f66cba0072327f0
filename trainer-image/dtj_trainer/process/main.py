"""The training process: waits until it may start, runs the program or serves, and reports how it ended.

The program runs as under `python PROGRAM ARGS` or `python -m MODULE ARGS`.
"""

from __future__ import annotations

import gc
import os
import random
import signal
import sys
from typing import Final, NoReturn

from dtj_trainer.cluster import probes
from dtj_trainer.cluster.task_mode import dtensor_environment
from dtj_trainer.cluster.tf_config import read_tf_config
from dtj_trainer.contract import EXIT_RETRY
from dtj_trainer.ipc.commands import process_commands
from dtj_trainer.ipc.messages import Fork, StartOrder, decode
from dtj_trainer.ipc.reporter import process_reporter
from dtj_trainer.ipc.takeover import process_takeover
from dtj_trainer.process.exit import end_of_failure, end_of_program, flush, job_is_finished
from dtj_trainer.process.fit_watch import watch_fit
from dtj_trainer.process.program_runner import run_program
from dtj_trainer.process.tf_server import serve
from dtj_trainer.strategy.devices import list_gpus

ORDER: Final = "DTJ_CHILD_ORDER"
"""Variable with the order of a process that no zygote forked: a Fork message."""
LEADER_SECONDS: Final = 1.0
"""A plain script's head start for its leader: what a too early call costs in gRPC's back-off."""


def run(order: StartOrder) -> NoReturn:
    """Carry out the supervisor's order: environment, and a program or the server."""
    _detach()
    os.environ.update(order.environment)
    reporter, process = process_reporter(), os.getpid()
    try:
        code = _run(order)
    except BaseException as error:
        if os.getpid() != process:
            raise  # forked by the program, it ends as it would without us
        code = end_of_failure(reporter, error, in_cluster=order.in_cluster)
    flush(sys.stdout)
    flush(sys.stderr)
    os._exit(code)


def _run(order: StartOrder) -> int:
    reporter = process_reporter()
    if order.standby:
        process_takeover().begin()
    elif order.has_peers and _is_finished():
        return 0
    else:
        start = process_commands().wait_for_start()
        if start is None:
            return EXIT_RETRY
        os.environ.update(start.environment)
    config = read_tf_config(os.environ)
    os.environ.update({**dtensor_environment(config), **os.environ})
    if "tensorflow" in sys.modules:
        list_gpus()  # before the program does, which would show what TensorFlow says where there is none
    if order.serves:
        serve(reporter)
    if order.in_cluster and not order.uses_dtj:  # a program that does waits by itself, when it builds its strategy
        probes.await_leader(config, LEADER_SECONDS)
    if order.in_cluster and config.is_leader and not order.standby:
        watch_fit(len(config.training_tasks))
    run_program(order.program, order.arguments, is_module=order.is_module)
    return end_of_program(reporter, in_cluster=order.in_cluster, explicit=False)


def _detach() -> None:
    """Make the forked process independent: group, signals, random state, garbage collection."""
    os.setpgid(0, 0)
    for number in (signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    random.seed()
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed()
    gc.enable()


def _is_finished() -> bool:
    """Return whether the job has already finished: its peers are gone, so no process may wait for them."""
    from dtj_trainer.cluster import environment

    try:
        return job_is_finished(environment.read(), process_reporter())
    except Exception:  # noqa: BLE001 - the program will say what is wrong, if it matters
        return False


if __name__ == "__main__":
    given = decode(os.environ.pop(ORDER).encode())
    assert isinstance(given, Fork)
    run(given.order)
