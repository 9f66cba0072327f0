"""The process that trains: parks until it is let go, runs the program, says how it ended.

The program sees what it would see under `python PROGRAM ARGS` or `python -m MODULE ARGS`.
"""

from __future__ import annotations

import atexit
import gc
import importlib.util
import json
import os
import random
import runpy
import signal
import sys
import threading
import traceback
import types
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NoReturn, TextIO

from dtj_trainer.cluster import probes
from dtj_trainer.cluster.task_mode import dtensor_environment
from dtj_trainer.cluster.tf_config import TfConfig, read_tf_config
from dtj_trainer.contract import EXIT_RETRY, ExitClass
from dtj_trainer.errors import PreflightFailed, TrainerError
from dtj_trainer.exit_status import Failure, classify
from dtj_trainer.ipc import reporter, takeover

LEADER_SECONDS: Final = 1.0
"""A plain script's head start for its leader: what a too early call costs in gRPC's back-off."""
LEAVE_SECONDS: Final = 8.0


def run(order: dict[str, Any]) -> NoReturn:
    """Carry out the supervisor's order: environment, and a program or the server."""
    _detach()
    os.environ.update(order.get("environment", {}))
    ours, process = reporter.child(), os.getpid()
    try:
        code = _run(order, ours)
    except BaseException as error:
        if os.getpid() != process:
            raise  # forked by the program, it ends as it would without us
        code = _failed(ours, error, in_cluster=bool(order.get("mesh")))
    _flush(sys.stdout)
    _flush(sys.stderr)
    os._exit(code)


def _run(order: dict[str, Any], ours: reporter.ChildLink) -> int:
    if order.get("standby"):
        silence = takeover.be_quiet()
        ours.begin_as_standby(lambda: takeover.speak(silence))
    elif order.get("awaits") and _is_finished(ours):
        return 0
    else:
        go = ours.wait_go()
        if go is None:
            return EXIT_RETRY
        os.environ.update(go.get("environment", {}))
    os.environ.update({**dtensor_environment(read_tf_config(os.environ)), **os.environ})
    if order.get("serve"):
        serve(ours)
    _let_leader_listen(order)
    _run_program(order["program"], order["arguments"], is_module=order["module"])
    return _done(ours, in_cluster=bool(order.get("mesh")), explicit_exit=False)


def _is_finished(ours: reporter.ChildLink) -> bool:
    """Whether the job has ended before: then its peers are gone, and nobody is to wait for them."""
    from dtj_trainer import initialization
    from dtj_trainer.cluster import environment

    try:
        return initialization.is_finished(environment.read(), ours)
    except Exception:  # noqa: BLE001 - the program will say what is wrong, if it matters
        return False


def _detach() -> None:
    """Be a process of its own: group, signals, randomness."""
    os.setpgid(0, 0)
    for number in (signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    random.seed()
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed()
    gc.enable()


def _let_leader_listen(order: dict[str, Any]) -> None:
    """A program of ours waits by itself, when it builds its strategy; a plain script cannot."""
    if not order.get("mesh") or order.get("ours"):
        return
    probes.await_leader(read_tf_config(os.environ), LEADER_SECONDS)


def _run_program(name: str, arguments: list[str], *, is_module: bool) -> None:
    sys.argv = [name, *arguments]
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    if is_module:
        sys.path[0] = str(Path.cwd())
        try:
            found = importlib.util.find_spec(name)
        except ModuleNotFoundError:
            found = None
        if found is None:
            raise PreflightFailed(f"there is no module {name!r} to run; check its name")
        runpy._run_module_as_main(name, alter_argv=True)  # type: ignore[attr-defined]  # noqa: SLF001
        return
    if Path(name).is_dir():
        runpy.run_path(name, run_name="__main__")
        return
    sys.path[0] = str(Path(name).resolve().parent)
    main.__file__ = name
    main.__dict__["__builtins__"] = __builtins__
    main.__dict__["__cached__"] = None
    source = Path(name).read_bytes()
    exec(compile(source, name, "exec"), main.__dict__)  # noqa: S102 - running it is the task


def _failed(ours: reporter.ChildLink, error: BaseException, *, in_cluster: bool) -> int:
    failure = classify(error)
    if failure.cls == ExitClass.DONE:
        return _done(ours, in_cluster=in_cluster, explicit_exit=True)
    own = failure.cls in {ExitClass.USER_ERROR, ExitClass.OUT_OF_MEMORY}
    ours.outcome(
        failure.cls,
        failure.exit_code,
        failure.message,
        exception=type(error).__name__,
        printed=own and _explain(failure, error),
    )
    if own:
        atexit._run_exitfuncs()  # noqa: SLF001 - what the interpreter calls at its end
    return failure.exit_code


def _explain(failure: Failure, error: BaseException) -> bool:
    """The line for people, and below it the traceback without our own frames; False where stderr takes nothing."""
    lines = [f"dtj: {failure.message}\n"]
    if not isinstance(error, SystemExit | TrainerError):
        trace = error.__traceback__
        while trace is not None and _is_ours(trace.tb_frame.f_code.co_filename):
            trace = trace.tb_next
        lines += traceback.format_exception(type(error), error, trace)
    _flush(sys.stdout)
    with suppress(Exception):  # the program may have closed or replaced it
        sys.stderr.write("".join(lines))
        sys.stderr.flush()
        return True
    return False


def _flush(stream: TextIO) -> None:
    with suppress(Exception):
        stream.flush()


def _is_ours(filename: str) -> bool:
    return filename == __file__ or filename.startswith("<frozen runpy")


def _done(ours: reporter.ChildLink, *, in_cluster: bool, explicit_exit: bool) -> int:
    """The program has ended well: finish as the interpreter would, then leave with the others.

    Whoever leaves early breaks the last step of those who are a little behind.
    """
    threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001 - what the interpreter calls first
    ours.outcome(ExitClass.DONE, 0, "", explicit_exit=explicit_exit)
    if in_cluster:
        ours.wait_leave(LEAVE_SECONDS)
    atexit._run_exitfuncs()  # noqa: SLF001 - and then
    return 0


def serve(ours: reporter.ChildLink) -> NoReturn:
    """Serve a chief's program, as a ps or worker, until killed."""
    from dtj_trainer.data import tf_dataset

    config = read_tf_config(os.environ)
    tf_dataset.register()
    server = _server(config)
    ours.ready()
    server.join()
    raise TrainerError("the TensorFlow server ended by itself")


def _server(config: TfConfig) -> Any:
    import tensorflow as tf

    cluster = {role: list(addresses) for role, addresses in config.cluster.items() if role != "evaluator"}
    return tf.distribute.Server(
        tf.train.ClusterSpec(cluster),
        job_name=config.task.role,
        task_index=config.task.index,
        protocol="grpc",
        start=True,
    )


if __name__ == "__main__":
    run(json.loads(os.environ.pop("DTJ_CHILD_ORDER")))
