"""The command `dtj-run`: supervises a TensorFlow program as PID 1 of its container.

A process that imports TensorFlow comes first; what watches over it is imported meanwhile.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence

from dtj_trainer.preload import spawn

POD_COMMANDS = ("checkpoint", "profile")
"""What the supervisor of a pod is asked for, by another `dtj-run` in it."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run to the end; returns the exit code of the container, or of a command inside its pod."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    if words and words[0] in POD_COMMANDS:
        from dtj_trainer.supervisor.http import pod_commands

        return pod_commands.run(words)
    early: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: early.append(number))  # PID 1 never gets what has no handler
    zygote = spawn.begin(os.environ)
    from dtj_trainer.supervisor.main import main as supervise

    return supervise(words, zygote, early)


if __name__ == "__main__":
    sys.exit(main())
