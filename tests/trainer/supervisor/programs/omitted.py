"""Preloads as a zygote, then uses what was left out of the import; prints as JSON what came and what came of it."""

import json
import os
import socket
import sys
import warnings
from pathlib import Path

from dtj_trainer.supervisor.omission import OMITTED
from dtj_trainer.supervisor.preload import preload

PACKAGES = sorted(set(OMITTED.values()))


def imported() -> list[str]:
    return [name for name in PACKAGES if name in sys.modules]


def main(folder: Path) -> None:
    preload()
    before = imported()
    import keras
    import numpy as np
    import tensorflow as tf
    import wrapt
    from tensorflow.python.distribute.failure_handling import failure_handling_util
    from tensorflow.python.training import learning_rate_decay, training

    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1, name="the_layer")])
    summary: list[str] = []
    model.summary(print_fn=summary.append)
    loaded = []
    for name in ("model.keras", "model.h5"):
        model.save(folder / name)
        loaded.append(keras.models.load_model(folder / name))
    same = [bool(np.array_equal(each(np.ones((1, 2))), model(np.ones((1, 2))))) for each in loaded]
    with socket.socket() as nobody, warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        nobody.bind(("127.0.0.1", 0))
        keras.callbacks.RemoteMonitor(f"http://127.0.0.1:{nobody.getsockname()[1]}").on_epoch_end(0, {})
        os.environ["GCE_METADATA_IP"] = f"127.0.0.1:{nobody.getsockname()[1]}"
        on_gcp = failure_handling_util.on_gcp()

    @wrapt.async_to_sync
    async def seven() -> int:
        return 7

    awaited = seven()
    product = tf.einsum("ij,jk,kl->il", *[tf.ones((2, 2))] * 3)
    wrapper = tf.nn.RNNCellDropoutWrapper
    decays = {each.exponential_decay for each in (tf.compat.v1.train, learning_rate_decay, training)}
    told = {
        "packages": PACKAGES,
        "before": before,
        "after": imported(),
        "summary": "".join(summary),
        "same": same,
        "warned": [str(warning.message) for warning in warned],
        "on_gcp": on_gcp,
        "awaited": awaited,
        "product": product.numpy().tolist(),
        "wrapper": f"{wrapper.__module__}.{wrapper.__name__}",
        "decayed": [float(each(0.2, 1, 1, 0.5)()) for each in decays],
    }
    sys.stdout.write(json.dumps(told))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
