"""16-bit arithmetic: Keras' policies, for models to come and for one that is there.

Variables stay in 32 bits under these policies, so a model that is built can change to one.
"""

from typing import Any

from dtj_trainer.compat import keras as compat


def make_default(kind: str) -> None:
    """`kind` is float16 or bfloat16; layers made from now on compute in it."""
    import keras

    keras.config.set_dtype_policy(f"mixed_{kind}")


def convert(model: Any, kind: str) -> None:
    """Let the layers of a compiled model compute in `kind`, but for those that were given a dtype of their own."""
    import keras

    for layer in compat.all_layers(model):
        if layer.dtype_policy.name == "float32" and not compat.has_own_dtype(layer):
            layer.dtype_policy = f"mixed_{kind}"
    optimizer = model.optimizer
    if kind == "float16" and optimizer is not None and not hasattr(optimizer, "inner_optimizer"):
        model.optimizer = keras.optimizers.LossScaleOptimizer(optimizer, name="loss_scale_optimizer")  # as compile does
