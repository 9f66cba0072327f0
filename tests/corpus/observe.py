"""Runs a program and writes what it trained: `python observe.py PROGRAM RESULT [PACKAGES]`.

RESULT is a NumPy archive of what is found among the program's names when it has ended: the weights of each Keras model,
each History, and the numbers called `scores`, `predictions` and `losses`. The program knows nothing of
this. PACKAGES: a folder to import from.
"""

import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

VALUES = ("scores", "predictions")


def several(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield a value, or the parts of a list of values, each with its name."""
    if isinstance(value, list):
        for index, part in enumerate(value):
            yield f"{name}[{index}]", part
    else:
        yield name, value


def observed(names: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield everything that is compared, as (key, numbers)."""
    import keras

    for name, value in names.items():
        for each, part in several(name, value):
            if isinstance(part, keras.Model):
                yield from ((f"trained|{each}|{i}", w.numpy()) for i, w in enumerate(part.trainable_weights))
                yield from ((f"state|{each}|{i}", w.numpy()) for i, w in enumerate(part.non_trainable_weights))
            elif isinstance(part, keras.callbacks.History) or each == "losses":
                history = getattr(part, "history", part)
                yield from ((f"history|{each}|{key}", numbers) for key, numbers in history.items())
                yield f"steps|{each}", _steps(part)
        if name in VALUES:
            yield f"value|{name}|", list(_numbers(value))


def _steps(history: Any) -> int:
    """Return how many batches this training had, as far as Keras knows; 0 otherwise."""
    params = getattr(history, "params", {})
    return (params.get("steps") or 0) * len(getattr(history, "epoch", ()))


def _numbers(value: Any) -> Iterator[float]:
    import numpy as np

    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else None
    if parts is None:
        yield from np.ravel(value).astype(float)
    else:
        for part in parts:
            yield from _numbers(part)


def main() -> None:
    program, result = sys.argv[1], Path(sys.argv[2])
    sys.path += sys.argv[3:]
    sys.argv = [program]
    names = runpy.run_path(program, run_name="__main__")

    import numpy as np

    with result.with_suffix(".writing").open("wb") as file:
        np.savez(file, allow_pickle=False, **{key: np.asarray(value, "float64") for key, value in observed(names)})
    result.with_suffix(".writing").replace(result)


if __name__ == "__main__":
    main()
