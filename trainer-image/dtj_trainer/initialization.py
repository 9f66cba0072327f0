"""dtj.init(): prepares this process, once, and returns its TrainContext.

The order matters: devices, threads and seed before TensorFlow's first op; then the peers; then the strategy, which
becomes the default one; then everything else.
"""

import contextlib
import gc
import os
import random
import signal
import sys
import time
from typing import NoReturn

from dtj_trainer.cluster.environment import Environment, read
from dtj_trainer.cluster.probes import await_peers, await_prepared_leader
from dtj_trainer.compat import keras as compat_keras
from dtj_trainer.compat import tensorflow as compat
from dtj_trainer.context import TrainContext
from dtj_trainer.errors import PeersNotReady, PreflightFailed
from dtj_trainer.ipc.commands import Commands, process_commands
from dtj_trainer.ipc.reporter import Reporter, process_reporter
from dtj_trainer.process.exit import job_is_finished
from dtj_trainer.process.program_end import watch_program
from dtj_trainer.strategy import devices, parameter_server, tpu
from dtj_trainer.strategy.build import build
from dtj_trainer.strategy.choose import choose
from dtj_trainer.strategy.coordination import CoordinationService

STARTUP_GC_THRESHOLD = 200_000
"""New objects between two garbage collections until the first step. Tracing makes many objects and keeps them; at
Python's own threshold, looking at them again and again takes a tenth of the time to that step."""

_USUAL_GC_THRESHOLD = gc.get_threshold()
_context: TrainContext | None = None


def init(*, deterministic: bool = False, seed: int | None = None) -> TrainContext:
    """Prepare this process: devices, threads, seed, peers, strategy. A second call changes nothing.

    `deterministic` (or DTJ_DETERMINISTIC) gives op determinism and pins threads; `seed` covers Python, NumPy,
    TensorFlow and Keras, and is the default of `fit(seed=…)`.

    A job that is finished already (done.json of this job) ends the process here, with 0: its program had ended with 0.

    Raises:
        PreflightFailed: an impossible setting, or devices that are not there.
        PeersNotReady: a peer did not come in time.
        UserError: TensorFlow ran an op before.
    """
    global _context  # noqa: PLW0603 - one process, one context
    if _context is None:
        _context = _prepare(deterministic=deterministic, seed=seed)
        watch_program(_context)
        if _context.is_chief:
            choice, replicas = _context.choice, _describe_replicas(_context)
            print(f"dtj: strategy {choice.type} ({choice.reason}), {replicas}", flush=True)  # noqa: T201 - for people
    return _context


def restore_garbage_collection() -> None:
    """Restore the usual garbage collection, after the first step."""
    gc.set_threshold(*_USUAL_GC_THRESHOLD)


def _prepare(*, deterministic: bool, seed: int | None) -> TrainContext:
    gc.set_threshold(STARTUP_GC_THRESHOLD)
    environment = read()
    reporter, commands = process_reporter(), process_commands()
    reporter.hello()
    commands.listen()
    _exit_if_finished(environment, reporter)
    deterministic = deterministic or environment.deterministic
    started = time.monotonic()
    import tensorflow as tf

    compat.check()
    devices.configure(environment.devices, deterministic=deterministic)
    choice = choose(environment, _count_devices(environment))
    if choice.type == "MultiWorkerMirrored":
        _wait_for_cluster(environment)
    if choice.type == "ParameterServer" and parameter_server.serves(environment):
        parameter_server.check(environment)
        _serve(environment, reporter)
    if choice.type == "TPU" and tpu.serves(environment):
        _serve(environment, reporter)
    strategy = build(choice, environment)
    if choice.type == "MultiWorkerMirrored":
        compat_keras.remember_optimizer_attributes()
    if choice.type != "None":
        tf.distribute.experimental_set_strategy(strategy)
    _set_seed(0 if seed is None and deterministic else seed, deterministic=deterministic)
    _handle_sigterm(commands)
    reporter.phase("cluster", time.monotonic() - started)
    workers = environment.trainers if choice.type == "MultiWorkerMirrored" else 1
    coordination = CoordinationService(environment, workers)
    return TrainContext(environment, choice, strategy, coordination, reporter, commands, seed, deterministic)


def _describe_replicas(context: TrainContext) -> str:
    if context.asynchronous:
        workers, servers = context.environment.members("worker"), context.environment.members("ps")
        return f"{workers} worker{'s' if workers > 1 else ''} and {servers} ps, asynchronous"
    replicas, workers = context.replicas, context.workers
    return f"{replicas} replica{'s' if replicas > 1 else ''} in {workers} process{'es' if workers > 1 else ''}"


def _serve(environment: Environment, reporter: Reporter) -> NoReturn:
    """Serve, in a worker or ps, instead of running the program; `dtj-run` does so earlier, and never comes here."""
    from dtj_trainer.process.tf_server import serve

    print(f"dtj: {environment.tf_config.task} serves; the program runs in the chief", flush=True)  # noqa: T201 - for people
    serve(reporter)


def _exit_if_finished(environment: Environment, reporter: Reporter) -> None:
    if environment.role == "evaluator":
        if not environment.checkpoint.directory:
            raise PreflightFailed(
                "an evaluator evaluates checkpoints and there is no checkpoint directory; set spec.checkpoint"
            )
        return
    if job_is_finished(environment, reporter):
        sys.exit(0)


def _count_devices(environment: Environment) -> int:
    """Count the accelerators of this process, or its logical CPUs, without initializing TensorFlow's devices."""
    import tensorflow as tf

    gpus = len(tf.config.list_physical_devices("GPU"))
    return environment.devices.logical_devices or gpus or 1


def _wait_for_cluster(environment: Environment) -> None:
    await_peers(environment.tf_config, environment.start_seconds)
    if not await_prepared_leader(environment.tf_config, environment.start_seconds):
        address = environment.tf_config.address(environment.tf_config.leader)
        raise PeersNotReady(
            f"{environment.tf_config.leader} ({address}) does not answer after {environment.start_seconds:g} s; "
            "check that its pod runs and that the port is open"
        )


def _set_seed(seed: int | None, *, deterministic: bool) -> None:
    """Seed all generators; without a seed, only those of Python and NumPy, from which Keras makes initial values.

    TensorFlow's global seed would apply to every shuffle without a seed, and those have to be refused where processes
    share the data.
    """
    import numpy as np
    import tensorflow as tf

    if seed is not None:
        import keras

        keras.utils.set_random_seed(seed)
        os.environ.setdefault("PYTHONHASHSEED", str(seed))
    elif not compat.has_global_seed():
        random.seed(0)
        np.random.seed(0)  # noqa: NPY002 - what programs use
    if deterministic:
        tf.config.experimental.enable_op_determinism()


def _handle_sigterm(commands: Commands) -> None:
    """Replace TensorFlow's handler, because its collectives ignore SIGTERM. Forked children still end on it."""

    def note_preemption(*_: object) -> None:
        commands.preempted.set()

    def block() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # one that comes during the fork would be lost

    def unblock() -> None:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})

    def reset_in_child() -> None:
        if signal.getsignal(signal.SIGTERM) is note_preemption:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        unblock()

    with contextlib.suppress(ValueError):  # not the main thread: the program handles signals itself
        signal.signal(signal.SIGTERM, note_preemption)
        os.register_at_fork(before=block, after_in_parent=unblock, after_in_child=reset_in_child)
