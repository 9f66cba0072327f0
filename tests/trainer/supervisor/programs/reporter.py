# ruff: noqa: T201 - the test reads what is printed
"""Speaks to the supervisor as the loop does, without training anything. Arguments: steps, then what happens."""

import os
import sys
import time

from dtj_trainer.ipc import reporter

print("SAY begin", os.getpid(), "tensorflow" in sys.modules, flush=True)
ours = reporter.child()
ours.hello()
ours.phase("cluster", 0.1)
for step in range(1, int(sys.argv[1]) + 1):
    if ours.preempted.is_set():
        if sys.argv[2:] == ["slow"]:
            ours.saving(step)
            print("SAY saving", flush=True)
            time.sleep(1.5)
        ours.checkpoint(step, 0.01)
        ours.outcome("preempted", 42, "told to stop; the state is saved", step=step, checkpoint_step=step)
        os._exit(42)
    if ours.checkpoint_wanted.is_set():
        ours.checkpoint_wanted.clear()
        ours.checkpoint(step, 0.01)
    ours.progress(step, steps=1, seconds=0.02, examples=32, loss=1.0 / step, learning_rate=0.1, total_steps=1000)
    time.sleep(0.02)
if sys.argv[2:] == ["stall"]:
    time.sleep(600)
ours.flush()
ours.outcome("done", 0, "", step=int(sys.argv[1]), metrics={"accuracy": 0.5})
os._exit(0)
