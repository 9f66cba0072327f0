"""The exception hook for programs without `dtj-run`: prints a TrainerError, or advice, as one line without traceback.

Python handles all other exceptions. Standard library only.
"""

import os
import sys
from types import TracebackType

from dtj_trainer.contract import EXIT_ERROR
from dtj_trainer.errors import TrainerError
from dtj_trainer.process.advice import advised


def install() -> None:
    """Install the hook: a TrainerError, or advice, is printed as one line; the process ends with its exit code."""
    before = sys.excepthook

    def say(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        error = advised(error)
        if not isinstance(error, TrainerError):
            before(kind, error, trace)
            return
        sys.stdout.flush()
        sys.stderr.write(f"dtj: {' '.join(error.message.split())}\n")
        sys.stderr.flush()
        if error.exit_code != EXIT_ERROR:  # the interpreter's own
            os._exit(error.exit_code)

    sys.excepthook = say
