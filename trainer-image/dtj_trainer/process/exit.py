"""Ends a process with one line for people and an exit code that the supervisor and the operator understand."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

from dtj_trainer.checkpoint import done_file
from dtj_trainer.cluster.environment import Environment
from dtj_trainer.cluster.tf_config import read_tf_config
from dtj_trainer.contract import ExitClass, ExitStatus
from dtj_trainer.errors import PreflightFailed, TrainerError
from dtj_trainer.exit_status import exit_status_of
from dtj_trainer.ipc.commands import process_commands
from dtj_trainer.ipc.messages import ProcessExit
from dtj_trainer.ipc.reporter import Reporter
from dtj_trainer.process.advice import advised
from dtj_trainer.process.program_end import chief_has_ended, program_ended

if TYPE_CHECKING:
    from dtj_trainer.context import TrainContext

LEAVES_AT_ONCE: Final = ("peer-lost", "preempted", "fenced", "stalled")
LEAVE_SECONDS: Final = 8.0
"""How long the chief's program that ended waits for those of its peers; the others look for done.json so often."""
_HERE: Final = str(Path(__file__).parent)


@contextmanager
def exit_on_failure(context: TrainContext) -> Iterator[None]:
    """End a process that runs without `dtj-run` by `os._exit`, with its line and exit code, on an error.

    An interpreter that shuts down with dead peers takes up to 20 seconds. Under `dtj-run` every exception ends in
    `end_of_failure`; if the program catches one that interrupts the job, that happens when it has ended. An error
    raised in Python code within a graph is raised as if there were no graph.
    """
    try:
        yield
    except Exception as error:
        told = advised(error)
        status = exit_status_of(told)
        if status.exit_class in LEAVES_AT_ONCE:
            context.interrupted = error
        unsupervised = not context.reporter.connected
        if unsupervised and (status.exit_class in LEAVES_AT_ONCE or context.workers > 1):
            if status.exit_class == "user-error" and told is error:
                traceback.print_exc()
            print(f"dtj: {status.message}", file=sys.stderr, flush=True)  # noqa: T201 - the one line for people
            sys.stdout.flush()
            os._exit(status.exit_code)
        if status.exit_class == "preflight-failed" and not isinstance(error, TrainerError):
            raise PreflightFailed(status.message) from error
        raise


def end_of_failure(reporter: Reporter, error: BaseException, *, in_cluster: bool) -> int:
    """Report what ended the program; returns the exit code."""
    error = advised(error)
    status = exit_status_of(error)
    if status.exit_class == ExitClass.DONE:
        try:
            return end_of_program(reporter, in_cluster=in_cluster, explicit=True)
        except Exception as at_end:  # noqa: BLE001 - reported below, as any other
            error, status = at_end, exit_status_of(at_end)
    own = status.exit_class in {ExitClass.USER_ERROR, ExitClass.OUT_OF_MEMORY}
    printed = own and _print_traceback(status, error)
    reporter.exit(
        ProcessExit(
            status.exit_class, status.exit_code, status.message, exception=type(error).__name__, printed=printed
        )
    )
    if own:
        atexit._run_exitfuncs()  # noqa: SLF001 - what the interpreter calls at its end
    return status.exit_code


def end_of_program(reporter: Reporter, *, in_cluster: bool, explicit: bool) -> int:
    """Finish as the interpreter would after a successful program, record that, and exit with the peers; returns 0.

    A process that exits early breaks the last step of slower peers, and the cluster of a chief whose program goes on.
    `explicit`: the program called sys.exit.
    """
    threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001 - what the interpreter calls first
    program_ended()
    reporter.exit(ProcessExit(ExitClass.DONE, 0, explicit=explicit))
    if in_cluster:
        _wait_for_peers(reporter, explicit=explicit)
    atexit._run_exitfuncs()  # noqa: SLF001 - and then
    return 0


def _wait_for_peers(reporter: Reporter, *, explicit: bool) -> None:
    """Wait until the supervisor says that the peers have ended: all of them for the chief, the chief for the others."""
    commands = process_commands()
    if read_tf_config(os.environ).is_leader:
        commands.wait_for_leave(LEAVE_SECONDS)
        return
    while not commands.wait_for_leave(LEAVE_SECONDS):
        with suppress(TrainerError):  # a store that does not answer
            if chief_has_ended():  # and its pod was gone before it could say so
                reporter.exit(ProcessExit(ExitClass.DONE, 0, explicit=explicit, job_done=True))
                return


def job_is_finished(environment: Environment, reporter: Reporter) -> bool:
    """Return whether this job has already finished; prints that it has."""
    done = done_file.read(environment.checkpoint.directory, environment.job_hash)
    if done is None:
        return False
    message = f"finished at step {done.step} already"
    print(f"dtj: {message}", flush=True)  # noqa: T201 - the console line
    reporter.exit(
        ProcessExit("done", 0, message, step=done.step, checkpoint_step=done.step, metrics=done.metrics, job_done=True)
    )
    return True


def flush(stream: TextIO) -> None:
    """Flush a stream that the program may have closed or replaced."""
    with suppress(Exception):
        stream.flush()


def _print_traceback(status: ExitStatus, error: BaseException) -> bool:
    """Print the error line and the traceback without our frames; returns False if stderr is not writable."""
    lines = [f"dtj: {status.message}\n"]
    if not isinstance(error, SystemExit | TrainerError):
        trace = error.__traceback__
        while trace is not None and _is_ours(trace.tb_frame.f_code.co_filename):
            trace = trace.tb_next
        lines += traceback.format_exception(type(error), error, trace)
    flush(sys.stdout)
    with suppress(Exception):  # the program may have closed or replaced it
        sys.stderr.write("".join(lines))
        sys.stderr.flush()
        return True
    return False


def _is_ours(filename: str) -> bool:
    return filename.startswith((_HERE, "<frozen runpy"))
