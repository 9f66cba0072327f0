"""The data of a call of `fit`, `train` or `evaluate`, its kinds, and its length as far as the call gives it."""

from dataclasses import dataclass
from types import GeneratorType
from typing import Any

from dtj_trainer.data.adapters.array_data import holds_arrays
from dtj_trainer.data.adapters.batch_split import is_dataset
from dtj_trainer.data.pipeline import Pipeline
from dtj_trainer.data.sources.arrays import Arrays
from dtj_trainer.errors import PreflightFailed


@dataclass(frozen=True, slots=True)
class EpochLength:
    """The length of an epoch and of the training, as far as the caller gave it."""

    batches: int | None = None
    """Batches per epoch, if the caller gave them; then the dataset is not read to count them."""
    most: int | None = None
    """Batches of the whole training: an infinite dataset is read no further to count them."""

    @classmethod
    def of(
        cls, epochs: int | None, steps: int | None, steps_per_epoch: int | None, accumulate: int = 1
    ) -> "EpochLength":
        """Return it from the arguments of `fit` and `train`."""
        most = None if steps is None else steps * accumulate
        ends = [most, epochs and steps_per_epoch and epochs * steps_per_epoch]
        return cls(steps_per_epoch or (most if epochs is None else None), min(filter(None, ends), default=None))


ANY_LENGTH = EpochLength()
"""Where the caller gave nothing."""


@dataclass(frozen=True, slots=True)
class GivenData:
    """The data of a call, by the names of `keras.Model.fit`."""

    x: Any
    y: Any = None
    sample_weight: Any = None
    class_weight: Any = None
    name: str = "x"
    """Of the argument, for people."""

    @classmethod
    def of_training(cls, data: Any) -> "GivenData":
        """Return the data of `dtj.train`: a tuple of arrays is one element, as a step gets it."""
        return cls((data,) if isinstance(data, tuple) and holds_arrays(data) else data, name="data")

    @classmethod
    def of_validation(cls, data: Any) -> "GivenData":
        """Return the data of `validation_data`: batched data, or a tuple (x, y) or (x, y, sample_weight) of arrays."""
        if isinstance(data, tuple | list) and not is_dataset(data):
            if len(data) not in {1, 2, 3}:
                raise PreflightFailed(f"validation_data has {len(data)} parts; give (x, y) or (x, y, sample_weight)")
            x, y, sample_weight = (*data, None, None)[:3]
            return cls(x, y, sample_weight, name="validation_data")
        return cls(data, name="validation_data")


def is_table(data: Any) -> bool:
    """Return whether this is a source of files."""
    return hasattr(data, "blocks") and hasattr(data, "signature")


def is_py_dataset(data: Any) -> bool:
    """Return whether this is a keras.utils.PyDataset."""
    import keras

    return isinstance(data, keras.utils.PyDataset)


def is_generator(data: Any) -> bool:
    """Return whether this is a generator, or a torch.utils.data.DataLoader; PyTorch is not imported."""
    return isinstance(data, GeneratorType) or _is_of(data, "DataLoader", "torch.utils.data")


def check_batched(data: GivenData) -> None:
    """Refuse what is no kind of data, and arguments that do not go with data that holds y and weights itself.

    Raises:
        PreflightFailed: names the argument.
    """
    x, kind = data.x, type(data.x).__name__
    if x is None:
        raise PreflightFailed(f"{data.name} is missing; give arrays, a tf.data.Dataset, or a dtj.data.Pipeline")
    if any(_is_of(x, name, "grain") for name in ("MapDataset", "IterDataset", "DataLoader")):
        raise PreflightFailed(
            f"{data.name} is a {kind} of grain, which dtj.fit does not take; give a generator over it, or a "
            "keras.utils.PyDataset"
        )
    batched = is_dataset(x) or is_py_dataset(x)
    if not (batched or is_generator(x) or isinstance(x, Pipeline | Arrays) or is_table(x) or callable(x)):
        raise PreflightFailed(
            f"{data.name} is a {kind}, which dtj.fit does not take; give arrays, a tf.data.Dataset, a "
            "keras.utils.PyDataset, a generator, a dtj.data.Pipeline, or fn(ctx)"
        )
    for name, value in (("y", data.y), ("sample_weight", data.sample_weight)):
        if value is not None:
            raise PreflightFailed(f"{name} cannot be given beside {data.name}, a {kind}, which holds it itself")
    if data.class_weight is not None and not batched:
        raise PreflightFailed(f"class_weight cannot be given beside {data.name}, a {kind}; give sample weights in it")


def _is_of(data: Any, name: str, package: str) -> bool:
    """Return whether the data is of a class of that name in a package, which is not imported."""
    return any(kind.__name__ == name and f"{kind.__module__}.".startswith(f"{package}.") for kind in type(data).__mro__)
