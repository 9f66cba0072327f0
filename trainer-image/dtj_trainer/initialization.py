"""The running process: what it was told, its strategy, and its place in the job.

`init()` makes it, once. The order matters and is kept here: devices, threads and seed before TensorFlow's first op;
then the peers; then the strategy, which becomes the default one; then everything else.
"""

import contextlib
import gc
import os
import random
import signal
import sys
import time
from dataclasses import dataclass, field
from typing import Any, NoReturn

from dtj_trainer.cluster.environment import Environment, read
from dtj_trainer.cluster.probes import await_leader, await_peers
from dtj_trainer.compat import keras as compat_keras
from dtj_trainer.compat import tensorflow as compat
from dtj_trainer.compat.types import Strategy
from dtj_trainer.data.sharding import Sharding
from dtj_trainer.errors import PeersNotReady, PreflightFailed
from dtj_trainer.ipc.commands import Commands, process_commands
from dtj_trainer.ipc.reporter import Reporter, process_reporter
from dtj_trainer.process.exit import job_is_finished
from dtj_trainer.strategy import devices, parameter_server, tpu
from dtj_trainer.strategy.build import build
from dtj_trainer.strategy.choose import Choice, choose
from dtj_trainer.strategy.coordination import CoordinationService

BRING_UP_OBJECTS = 200_000
"""New objects between two garbage collections until the first step: tracing makes many and keeps them, so looking at
them again and again costs a tenth of the way to that step. `calm` goes back."""


def calm() -> None:
    """Collect garbage as usual again: the first step is made."""
    gc.set_threshold(*_USUAL)


_USUAL = gc.get_threshold()


@dataclass(slots=True)
class Session:
    """One process of a job, prepared."""

    environment: Environment
    choice: Choice
    strategy: Strategy
    """A `tf.distribute.Strategy`; the default one of this process."""
    coordination: CoordinationService
    reporter: Reporter
    commands: Commands
    seed: int | None
    deterministic: bool
    prepared: bool
    """Whether init() came first, before any model."""
    trained: bool = False
    """Whether a training of this process has come to its end."""
    started: float = field(default_factory=time.monotonic)

    @property
    def role(self) -> str:
        return self.environment.role

    @property
    def index(self) -> int:
        return self.environment.index

    @property
    def is_chief(self) -> bool:
        """Whether this process writes checkpoints, summaries and the console line."""
        return self.environment.is_chief

    @property
    def workers(self) -> int:
        """Processes that train in step with one another."""
        return self.environment.trainers if self.choice.type == "MultiWorkerMirrored" else 1

    @property
    def asynchronous(self) -> bool:
        """Whether this process hands out steps to workers that do not wait for one another."""
        return self.choice.type == "ParameterServer"

    @property
    def defers_metrics(self) -> bool:
        """Whether steps may not write the accumulators of metrics, because replicas share them without a rule."""
        return self.choice.type in {"ParameterServer", "CentralStorage"}

    @property
    def rank(self) -> int:
        return self.environment.rank if self.workers > 1 else 0

    @property
    def replicas(self) -> int:
        """Replicas of the model over all processes."""
        return int(self.strategy.num_replicas_in_sync)

    @property
    def local_replicas(self) -> int:
        return self.sharding.local_replicas

    @property
    def sharding(self) -> Sharding:
        """How this process and its peers share the data."""
        return Sharding(self.workers, self.rank, self.replicas)


_current: Session | None = None


def current() -> Session | None:
    """The session of this process, if there is one yet."""
    return _current


def init(*, deterministic: bool = False, seed: int | None = None) -> Session:
    """Prepare this process: devices, threads, seed, peers, strategy. A second call changes nothing.

    `deterministic` (or DTJ_DETERMINISTIC) gives op determinism and pins threads; `seed` covers Python, NumPy,
    TensorFlow and Keras, and is the default of `fit(seed=…)`.

    A job that is finished already (done.json of this job) ends the process here, with 0.

    Raises:
        PreflightFailed: an impossible setting, or devices that are not there.
        PeersNotReady: a peer did not come in time.
        UserError: TensorFlow ran an op before.
    """
    return _begin(deterministic=deterministic, seed=seed, prepared=True)


def ensure(*, prepared: bool) -> Session:
    """The session, made now if the program did not call init(); `prepared`: nothing was built before."""
    return _current or _begin(deterministic=False, seed=None, prepared=prepared)


def _begin(*, deterministic: bool, seed: int | None, prepared: bool) -> Session:
    global _current  # noqa: PLW0603 - one process, one session
    if _current is not None:
        return _current
    gc.set_threshold(BRING_UP_OBJECTS)
    environment = read()
    reporter, commands = process_reporter(), process_commands()
    reporter.hello()
    commands.listen()
    _leave_if_finished(environment, reporter)
    deterministic = deterministic or environment.deterministic
    started = time.monotonic()
    import tensorflow as tf

    compat.check()
    devices.configure(environment.devices, deterministic=deterministic)
    choice = choose(environment, _count_devices(tf, environment))
    if choice.type == "MultiWorkerMirrored":
        _await_cluster(environment)
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
    _seed(tf, 0 if seed is None and deterministic else seed, deterministic=deterministic)
    _hear_sigterm(commands)
    reporter.phase("cluster", time.monotonic() - started)
    workers = environment.trainers if choice.type == "MultiWorkerMirrored" else 1
    coordination = CoordinationService(environment, workers)
    _current = Session(environment, choice, strategy, coordination, reporter, commands, seed, deterministic, prepared)
    if environment.is_chief:
        copies = _copies(_current)
        print(f"dtj: strategy {choice.type} ({choice.reason}), {copies}", flush=True)  # noqa: T201 - the console line
    return _current


def _copies(session: Session) -> str:
    if session.asynchronous:
        workers, servers = session.environment.members("worker"), session.environment.members("ps")
        return f"{workers} worker{'s' if workers > 1 else ''} and {servers} ps, asynchronous"
    replicas, workers = session.replicas, session.workers
    return f"{replicas} replica{'s' if replicas > 1 else ''} in {workers} process{'es' if workers > 1 else ''}"


def _serve(environment: Environment, reporter: Reporter) -> NoReturn:
    """A worker or ps serves and does not run the program; under `dtj-run` this is never reached."""
    from dtj_trainer.process.tf_server import serve

    print(f"dtj: {environment.tf_config.task} serves; the program runs in the chief", flush=True)  # noqa: T201 - for people
    serve(reporter)


def _leave_if_finished(environment: Environment, reporter: Reporter) -> None:
    if environment.role == "evaluator":
        if not environment.checkpoint.directory:
            raise PreflightFailed(
                "an evaluator evaluates checkpoints and there is no checkpoint directory; set spec.checkpoint"
            )
        return
    if job_is_finished(environment, reporter):
        sys.exit(0)


def _count_devices(tf: Any, environment: Environment) -> int:
    """Accelerators of this process; logical CPUs where there are none. Asks nothing that starts TensorFlow."""
    gpus = len(tf.config.list_physical_devices("GPU"))
    return environment.devices.logical_devices or gpus or 1


def _await_cluster(environment: Environment) -> None:
    await_peers(environment.tf_config, environment.start_seconds)
    if not await_leader(environment.tf_config, environment.start_seconds):
        address = environment.tf_config.address(environment.tf_config.leader)
        raise PeersNotReady(
            f"{environment.tf_config.leader} ({address}) does not answer after {environment.start_seconds:g} s; "
            "check that its pod runs and that the port is open"
        )


def _seed(tf: Any, seed: int | None, *, deterministic: bool) -> None:
    """Without a seed, what makes first values is seeded: TensorFlow's own would give a shuffle without one a seed too,
    and that is to be refused where processes share the data.
    """
    import numpy as np

    if seed is not None:
        import keras

        keras.utils.set_random_seed(seed)
        os.environ.setdefault("PYTHONHASHSEED", str(seed))
    elif not compat.has_global_seed():
        random.seed(0)
        np.random.seed(0)  # noqa: NPY002 - what programs use
    if deterministic:
        tf.config.experimental.enable_op_determinism()


def _hear_sigterm(commands: Commands) -> None:
    """Take SIGTERM back from TensorFlow, whose collectives swallow it. What the program forks is ended by it."""

    def heard(*_: object) -> None:
        commands.preempted.set()

    def hold() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # one that comes at once would be lost

    def release() -> None:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})

    def forget() -> None:
        if signal.getsignal(signal.SIGTERM) is heard:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        release()

    with contextlib.suppress(ValueError):  # not in the main thread: whoever has it decides
        signal.signal(signal.SIGTERM, heard)
        os.register_at_fork(before=hold, after_in_parent=release, after_in_child=forget)
