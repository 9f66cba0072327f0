"""A watch over programs that train in each process of a job by themselves, which nothing else tells their people.

A program that never asks for a strategy runs as in one process: each worker trains a model of its own on all the data.
"""

from __future__ import annotations

import sys
import threading
import time
import traceback
from types import FrameType
from typing import Any, Final

from dtj_trainer.exit_status import file_and_line, own_frame
from dtj_trainer.process.program_end import is_watched

POLL_SECONDS: Final = 0.5
_LIBRARIES: Final = ("keras", "tf_keras")
_OVER_PROCESSES: Final = ("MultiWorkerMirroredStrategy", "CollectiveAllReduceStrategy", "ParameterServerStrategy")
"""Names of the strategies, and of their bases, under which a model's own `fit` is of all processes."""


def watch_fit(processes: int) -> None:
    """Warn once, from now on, if the program calls a Keras model's own `fit` without a strategy of all processes."""
    threading.Thread(target=_watch, args=(processes,), name="fit-watch", daemon=True).start()


def _watch(processes: int) -> None:
    while not is_watched():  # dtj.init() is called: what follows is ours, or known to be of one process
        if not set(_LIBRARIES).isdisjoint(sys.modules):
            for frame in sys._current_frames().values():  # noqa: SLF001 - documented in `sys`
                if (called := _fit_alone(frame)) is not None:
                    _warn(called, processes)
                    return
        time.sleep(POLL_SECONDS)


def _fit_alone(frame: FrameType | None) -> FrameType | None:
    """Return the frame of a running `fit` of a Keras model whose strategy is of one process; None if there is none."""
    while frame is not None:
        library = str(frame.f_globals.get("__name__")).partition(".")[0]
        if frame.f_code.co_name == "fit" and library in _LIBRARIES:
            strategy: Any = getattr(frame.f_locals.get("self"), "distribute_strategy", None)
            kinds = {kind.__name__ for kind in type(strategy).__mro__}
            return frame if kinds.isdisjoint(_OVER_PROCESSES) else None
        frame = frame.f_back
    return None


def _warn(called: FrameType, processes: int) -> None:
    caller = own_frame(traceback.StackSummary.extract(reversed(list(traceback.walk_stack(called)))))
    where = "" if caller is None else f" ({file_and_line(caller)})"
    print(  # noqa: T201 - for people
        f"dtj: model.fit trains another model in each of the {processes} processes of this job{where}; call dtj.init() "
        "at the top of the program, and dtj.fit(model, …) in place of model.fit(…), to train one with all of them",
        file=sys.stderr,
        flush=True,
    )
