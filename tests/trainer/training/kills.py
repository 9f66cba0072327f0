"""A job whose processes are killed at random steps."""

import random
from pathlib import Path

from tests.trainer.training import launch
from tests.trainer.training.launch import Ended

EPOCHS = "8"
STEPS = 80


def killed(kills: int, directory: Path, count: int, environment: dict[str, str]) -> list[Ended]:
    """The end of a job of which one process was killed `kills` times, each time at a random step of that life."""
    seed = random.randrange(2**32)
    print(f"kills by seed {seed}")  # noqa: T201 - says how to have the same again
    fate = random.Random(seed)
    environment = {**environment, **launch.checkpoint(directory, everySteps=3)}
    for _ in range(kills):
        victim, step = fate.randrange(count), fate.randint(1, 9)
        doomed = {"TEST_DIE_AT": str(step), "TEST_VICTIM": str(victim)}
        lives = launch.run_workers(count, "resume.py", environment={**environment, **doomed})
        assert [each.code for each in lives] == [-9 if n == victim else 75 for n in range(count)], lives[0].output
    return list(launch.run_workers(count, "resume.py", environment=environment))
