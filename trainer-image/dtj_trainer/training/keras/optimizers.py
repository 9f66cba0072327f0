"""The optimizers of a model: that of `compile`, and others that the model's class has as attributes."""

from typing import Any

from dtj_trainer.compat.types import Model


def all_optimizers(model: Model) -> list[Any]:
    """Return them, each once; not those inside another one."""
    import keras

    held = [model.optimizer, *vars(model).values()]
    found = {id(each): each for each in held if isinstance(each, keras.optimizers.Optimizer)}
    inner = {id(each.inner_optimizer) for each in found.values() if hasattr(each, "inner_optimizer")}
    return [each for number, each in found.items() if number not in inner]
