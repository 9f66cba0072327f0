# ruff: noqa: T201 - the test reads what is printed
"""Speaks to the supervisor as the loop does, without training anything. Arguments: steps, then what happens."""

import os
import sys
import time

from dtj_trainer.ipc.commands import process_commands
from dtj_trainer.ipc.messages import ProcessExit, StepsDone
from dtj_trainer.ipc.reporter import process_reporter

print("SAY begin", os.getpid(), "tensorflow" in sys.modules, flush=True)
reporter, commands = process_reporter(), process_commands()
reporter.hello()
commands.listen()
reporter.phase("cluster", 0.1)
for step in range(1, int(sys.argv[1]) + 1):
    if commands.preempted.is_set():
        if sys.argv[2:] == ["slow"]:
            reporter.checkpoint_started(step)
            print("SAY saving", flush=True)
            time.sleep(1.5)
        reporter.checkpoint_saved(step, 0.01)
        saved = "told to stop; the state is saved"
        reporter.exit(ProcessExit("preempted", 42, saved, step=step, checkpoint_step=step))
        os._exit(42)
    if commands.checkpoint_wanted.is_set():
        commands.checkpoint_wanted.clear()
        reporter.checkpoint_saved(step, 0.01)
    reporter.steps_done(
        StepsDone(step, steps=1, seconds=0.02, examples=32, loss=1.0 / step, learning_rate=0.1, total_steps=1000)
    )
    time.sleep(0.02)
if sys.argv[2:] == ["stall"]:
    time.sleep(600)
reporter.exit(ProcessExit("done", 0, step=int(sys.argv[1]), metrics={"accuracy": 0.5}))
os._exit(0)
