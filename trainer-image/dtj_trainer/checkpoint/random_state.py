"""The random states that a checkpoint holds: of Python, NumPy, Keras and TensorFlow, as JSON.

Not among them: the counters of stateful `tf.random` ops, which TensorFlow does not show, and a `tf.random.Generator`
that the program keeps outside of its model and state.
"""

import random
from collections.abc import Mapping
from typing import Any

from dtj_trainer.compat import generators

RANDOM_STATES = ("python", "numpy", "keras", "tensorflow")


def random_state() -> dict[str, Any]:
    """Return the current states; of the unseeded `keras.random`, and of TensorFlow's global Generator, if in use."""
    import numpy as np

    kind, keys, place, has_gauss, cached = np.random.get_state()  # noqa: NPY002 - the legacy state is what programs use
    state: dict[str, Any] = {
        "python": random.getstate(),
        "numpy": [kind, [int(key) for key in keys], int(place), int(has_gauss), float(cached)],
    }
    for name, variable in _variables().items():
        state[name] = [int(each) for each in np.asarray(variable)]
    return state


def set_random_state(state: Mapping[str, Any]) -> None:
    """Set the states that `random_state` has returned."""
    import numpy as np

    version, keys, gauss = state["python"]
    random.setstate((version, tuple(keys), gauss))
    kind, numpy_keys, place, has_gauss, cached = state["numpy"]
    np.random.set_state((kind, np.array(numpy_keys, dtype=np.uint32), place, has_gauss, cached))  # noqa: NPY002 - as above
    if "keras" in state:
        generators.make_keras_generator()
    if "tensorflow" in state:
        generators.make_tensorflow_generator()
    for name, variable in _variables().items():
        if name in state:
            variable.assign(np.array(state[name], np.asarray(variable).dtype))


def _variables() -> dict[str, Any]:
    """Return the variables that hold the states of generators, of those that exist."""
    found = {"keras": generators.keras_state(), "tensorflow": generators.tensorflow_state()}
    return {name: variable for name, variable in found.items() if variable is not None}
