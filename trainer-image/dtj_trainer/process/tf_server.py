"""The TensorFlow server that workers and parameter servers run instead of the program."""

from __future__ import annotations

import os
from typing import NoReturn

from dtj_trainer.cluster.tf_config import read_tf_config
from dtj_trainer.errors import TrainerError
from dtj_trainer.ipc.reporter import Reporter


def serve(reporter: Reporter) -> NoReturn:
    """Run the TensorFlow server of a ps or worker until the process is killed."""
    import tensorflow as tf

    config = read_tf_config(os.environ)
    cluster = {role: list(addresses) for role, addresses in config.cluster.items() if role != "evaluator"}
    server = tf.distribute.Server(
        tf.train.ClusterSpec(cluster),
        job_name=config.task.role,
        task_index=config.task.index,
        protocol="grpc",
        start=True,
    )
    reporter.serving()
    server.join()
    raise TrainerError("the TensorFlow server ended by itself")
