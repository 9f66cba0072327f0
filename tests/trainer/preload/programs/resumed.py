"""Forked as by a zygote, trains by dtj.fit, is killed, and forked again goes on; prints as JSON what that one imported.

Arguments: a folder; the environment names the strategy and the cluster.
"""

import json
import os
import runpy
import signal
import sys
import time
from pathlib import Path

from dtj_trainer.preload.imports import preload

STEPS = 60


def train(folder: Path) -> int:
    """In a process of its own, slowly while there is a file `slow`."""
    if pid := os.fork():
        return pid
    os.dup2(sys.stderr.fileno(), 1)
    before = set(sys.modules)
    sys.argv = ["fitting.py", f"{STEPS}", str(folder / "slow")]
    runpy.run_path(str(Path(__file__).parents[2] / "supervisor" / "programs" / "fitting.py"))
    (folder / "imported").write_text(json.dumps([name for name in sys.modules if name not in before]))
    os._exit(0)


def main(folder: Path) -> None:
    preload()
    os.environ["DTJ_CHECKPOINT"] = json.dumps({"directory": str(folder / "checkpoints"), "everySteps": 2})
    slow = folder / "slow"
    slow.touch()
    first = train(folder)
    while not list(folder.glob("checkpoints/ckpt-2*")):
        if os.waitpid(first, os.WNOHANG) != (0, 0):
            raise SystemExit("it ended without a checkpoint")
        time.sleep(0.01)
    os.kill(first, signal.SIGKILL)
    os.waitpid(first, 0)
    slow.unlink()
    os.waitpid(train(folder), 0)
    sys.stdout.write((folder / "imported").read_text())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
