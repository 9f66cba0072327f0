"""Warm start: loads the initial weights of a training."""

from collections.abc import Iterator
from contextlib import contextmanager

from dtj_trainer.compat.types import Model
from dtj_trainer.errors import PreflightFailed
from dtj_trainer.training.keras.optimizers import all_optimizers


def load_initial_weights(model: Model, path: str) -> None:
    """Load Keras weights by file name, else a checkpoint (a prefix or a directory); the optimizer keeps its state.

    Raises:
        PreflightFailed: they do not exist, or are of another model.
    """
    import tensorflow as tf

    try:
        if path.endswith((".h5", ".keras")):
            with _without_optimizer(model):
                model.load_weights(path)
            return
        prefix = tf.train.latest_checkpoint(path) or path
        parts = tf.train.TrackableView.children(model).items()
        weights = tf.train.Checkpoint(**{name: part for name, part in parts if part is not model.optimizer})
        tf.train.Checkpoint(model=weights).read(prefix).expect_partial().assert_existing_objects_matched()
    except (OSError, ValueError, AssertionError, IndexError, RuntimeError, tf.errors.OpError) as error:
        reason = str(error).strip().splitlines()[0][:200]
        raise PreflightFailed(
            f"initial_weights {path} cannot be used ({reason}); give weights or a checkpoint of this model"
        ) from error


@contextmanager
def _without_optimizer(model: Model) -> Iterator[None]:
    """Restore the state of the model's optimizers afterwards: a file of weights has theirs too."""
    variables = [variable for optimizer in all_optimizers(model) for variable in optimizer.variables]
    before = [variable.numpy() for variable in variables]
    yield
    for variable, value in zip(variables, before, strict=True):
        variable.assign(value)
