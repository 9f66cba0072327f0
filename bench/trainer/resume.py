"""Trainings that are killed at random steps, and how many of them end with other weights than undisturbed ones."""

import tempfile
from pathlib import Path

from tests.trainer.loop import launch
from tests.trainer.loop.kills import EPOCHS, killed

JOBS, KILLS = 2, 20


def measure() -> dict[str, float]:
    """One device, bit for bit: weights and the optimizer's variables."""
    environment = {"TEST_EPOCHS": EPOCHS}
    undisturbed = launch.run("resume.py", environment=environment).said["digest"]
    others = 0
    for _ in range(JOBS):
        with tempfile.TemporaryDirectory() as folder:
            (ended,) = killed(KILLS, Path(folder), 1, environment)
            others += ended.said["digest"] != undisturbed
    return {"resume_kills": JOBS * KILLS, "resume_mismatches": others}
