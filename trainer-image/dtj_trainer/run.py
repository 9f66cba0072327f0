"""The command `dtj-run`: supervises a TensorFlow program as PID 1 of its container.

A process that imports TensorFlow comes first; what watches over it is imported meanwhile.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence

from dtj_trainer.preload import spawn


def main(arguments: Sequence[str] | None = None) -> int:
    """Run to the end; the exit code of the container."""
    early: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: early.append(number))  # PID 1 never gets what has no handler
    zygote = spawn.begin(os.environ)
    from dtj_trainer.supervisor.main import main as supervise

    return supervise(sys.argv[1:] if arguments is None else list(arguments), zygote, early)


if __name__ == "__main__":
    main()
