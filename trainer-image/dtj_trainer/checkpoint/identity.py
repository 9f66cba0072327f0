"""What this job is, as job.json will tell it."""

import platform

from dtj_trainer.checkpoint.job_file import JobFile
from dtj_trainer.context import TrainContext
from dtj_trainer.data.sharding import BatchSize


def identity(context: TrainContext, batch_size: BatchSize, seed: int, accumulate: int) -> JobFile:
    import keras
    import tensorflow as tf

    return JobFile(
        step=0,
        epoch=0,
        examples=0,
        strategy=context.choice.type,
        replicas=context.replicas,
        workers=context.workers,
        seed=seed,
        accumulate=accumulate,
        global_batch=batch_size.total,
        global_batch_given=batch_size.given,
        uid=context.environment.uid,
        attempt=context.environment.attempt,
        versions={"tensorflow": tf.__version__, "keras": keras.__version__, "python": platform.python_version()},
    )
