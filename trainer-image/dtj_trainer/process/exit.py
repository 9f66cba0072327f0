"""How a process ends that cannot go on.

Under `dtj-run` the supervisor's child does this for every exception; alone, this module does, because an interpreter
that shuts down with dead peers takes up to 20 seconds.
"""

import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from dtj_trainer.errors import PreflightFailed, TrainerError
from dtj_trainer.exit_status import classify
from dtj_trainer.initialization import Session

LEAVES_AT_ONCE = ("peer-lost", "preempted", "fenced", "stalled")


@contextmanager
def ending(session: Session) -> Iterator[None]:
    """End the process by `os._exit`, with its one line and exit code, where nobody can go on.

    What Python has refused within a graph is raised as if there were no graph.
    """
    try:
        yield
    except Exception as error:
        failure = classify(error)
        alone = not session.link.connected
        if alone and (failure.cls in LEAVES_AT_ONCE or session.workers > 1):
            if failure.cls == "user-error":
                traceback.print_exc()
            print(f"dtj: {failure.message}", file=sys.stderr, flush=True)  # noqa: T201 - the one line for people
            sys.stdout.flush()
            os._exit(failure.exit_code)
        if failure.cls == "preflight-failed" and not isinstance(error, TrainerError):
            raise PreflightFailed(failure.message) from error
        raise
