"""Prints every public name of TensorFlow with what it stands for, as JSON; `preloaded` as in a zygote."""

import json
import sys
from types import ModuleType

from dtj_trainer.preload.imports import preload


def walk(module: ModuleType, found: dict[str, str]) -> dict[str, str]:
    for name in (name for name in dir(module) if not name.startswith("_")):
        value = getattr(module, name)
        known = f"{module.__name__}.{name}"
        if not isinstance(value, ModuleType):
            kind = getattr(value, "__qualname__", type(value).__name__)
            found[known] = f"{getattr(value, '__module__', '')}.{kind}"
        elif getattr(value, "__name__", "").startswith("tensorflow._api."):
            found[known] = value.__name__
            if value.__name__ not in found:
                found[value.__name__] = ""
                walk(value, found)
    return found


if __name__ == "__main__":
    if sys.argv[1:] == ["preloaded"]:
        preload()
    import tensorflow as tf

    json.dump(walk(tf, {}), sys.stdout)
