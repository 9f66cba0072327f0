"""The generators of random numbers that Keras and TensorFlow make for a program, which have no public accessor.

Seen in Keras 3.15 and TensorFlow 2.21.
"""

from contextlib import suppress
from typing import Any

from dtj_trainer.compat.types import Variable


def keras_state() -> Any:
    """Return the variable from which the unseeded `keras.random` draws; None while it has not."""
    from keras.src.backend.common import global_state

    generator = global_state.get_global_attribute("global_seed_generator")
    return None if generator is None else generator.state


def make_keras_generator() -> None:
    """Make what the unseeded `keras.random` draws from, unless that exists."""
    from keras.src.random import seed_generator

    seed_generator.global_seed_generator()


def tensorflow_state() -> Variable | None:
    """Return the state of `tf.random.get_global_generator()`; None if there is none, or one for each replica."""
    from tensorflow.python.ops import stateful_random_ops

    generator = stateful_random_ops.global_generator
    return None if generator is None or hasattr(generator.state, "values") else generator.state


def make_tensorflow_generator() -> None:
    """Make the global generator, unless it exists; not under op determinism, which refuses it."""
    import tensorflow as tf

    with suppress(RuntimeError):
        tf.random.get_global_generator()
