"""Cloud TPUs: one process drives the cores of its host, or of a whole slice through the workers of the other hosts."""

import os
from collections.abc import Mapping
from typing import Any

from dtj_trainer.cluster.accelerators import tpu_there
from dtj_trainer.errors import PreflightFailed

NEXT_STEP = "run it on a node with TPUs and the image that has tensorflow-tpu, or choose another strategy"


def address(env: Mapping[str, str]) -> str | None:
    """What to ask the resolver for: `local` for the chips of this host, a name otherwise; None without any TPU.

    A name is never tried on speculation: the resolver would ask a metadata server, which takes minutes where there is
    none.
    """
    if env.get("TPU_NAME"):
        return env["TPU_NAME"]
    return "local" if tpu_there(env) else None


def build() -> Any:
    """Connect, initialise the system, and build the strategy.

    Raises:
        PreflightFailed: there is no TPU, or it does not answer.
    """
    name = address(os.environ)
    if name is None:
        raise PreflightFailed(f"the TPU strategy was asked for and there is no TPU here; {NEXT_STEP}")
    import tensorflow as tf

    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(name)
        if name != "local":
            tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
        return tf.distribute.TPUStrategy(resolver)
    except (tf.errors.OpError, OSError, ValueError, IndexError) as error:
        reason = " ".join(str(error).split())[:160]
        raise PreflightFailed(f"the TPU {name!r} cannot be used ({reason}); {NEXT_STEP}") from error
