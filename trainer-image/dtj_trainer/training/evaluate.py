"""dtj.evaluate: evaluates a compiled model, each process its share of the data."""

from collections.abc import Mapping
from typing import Any

from dtj_trainer.compat.types import Model
from dtj_trainer.data.adapters.adapter import get_validation_adapter
from dtj_trainer.data.adapters.given_data import GivenData
from dtj_trainer.data.sharding import BatchSize
from dtj_trainer.errors import PreemptedUnsaved
from dtj_trainer.initialization import init
from dtj_trainer.ipc.takeover import process_takeover
from dtj_trainer.process.exit import exit_on_failure
from dtj_trainer.training.history import numbers
from dtj_trainer.training.keras.build import build
from dtj_trainer.training.keras.replication import release
from dtj_trainer.training.keras.trainable import KerasTrainable
from dtj_trainer.training.validation import BatchHooks, Validation, ValidationSchedule


def evaluate(
    model: Any,
    x: Any = None,
    y: Any = None,
    batch_size: int | None = None,
    verbose: str | int = "auto",
    sample_weight: Any = None,
    steps: int | None = None,
    callbacks: Any = None,
    return_dict: bool = False,  # noqa: FBT001, FBT002
) -> Any:
    """Evaluate a compiled model; every process calls it, evaluates its share, and gets the result over all.

    The arguments are those of `keras.Model.evaluate`; so is the result: a number, a list of numbers in the order of
    the model's metrics, or a dict.

    Raises:
        PreflightFailed: data that is empty, or of an unsupported kind.
        Preempted: asked to leave meanwhile.
    """
    import keras

    context = init()
    with exit_on_failure(context):
        process_takeover().wait()
        ValidationSchedule(batch_size, steps).check()
        given = GivenData(x, y, sample_weight)
        data = get_validation_adapter(given, context.sharding, BatchSize(batch_size, batch_size), steps)
        build(model, data.element_spec, context)
        trainable = KerasTrainable(model, context, clip_norm=None)
        validation = Validation(trainable, context, data)
        calls = keras.callbacks.CallbackList(callbacks, model=model)
        model.stop_evaluating = False
        each = BatchHooks(
            calls.on_test_batch_begin, calls.on_test_batch_end, should_stop=lambda: bool(model.stop_evaluating)
        )
        calls.on_test_begin()
        found = validation.run(each if callbacks else None)
        release(model, context)
        calls.on_test_end(dict(validation.last_metrics))
        if found is None:
            raise PreemptedUnsaved("asked to leave while evaluating")
        logs = {name.removeprefix("val_"): value for name, value in found.items()}
        if context.is_chief and verbose:
            shown = "  ".join(f"{name} {value:.4g}" for name, value in numbers(logs).items())
            print(f"dtj: evaluated  {shown}", flush=True)  # noqa: T201 - for people
        return logs if return_dict else _in_order(model, logs)


def _in_order(model: Model, logs: Mapping[str, Any]) -> Any:
    """Return results as `keras.Model.evaluate` does: in the order of the model's metrics, one alone as a number."""
    names: list[str] = []
    for metric in model.metrics:
        names += [each.name for each in metric.metrics] if hasattr(metric, "metrics") else [metric.name]
    ordered = [name for name in names if name in logs]
    found = [logs[name] for name in [*ordered, *sorted(logs.keys() - set(ordered))]]
    return found[0] if len(found) == 1 else found
