"""No argument of Keras' methods is forgotten: it acts as in Keras, or is refused in a sentence that names it."""

from functools import cache
from typing import Any, Final

import pytest

from tests.trainer.training import launch

pytestmark = [pytest.mark.trainer, pytest.mark.matrix]

PROGRAM: Final = "signatures.py"
COMPILE: Final = {
    "optimizer", "loss", "loss_weights", "metrics", "weighted_metrics", "run_eagerly", "steps_per_execution",
    "jit_compile", "auto_scale_loss",
}  # fmt: skip
"""Those that docs/reference/python.md speaks of."""


@cache
def said() -> dict[str, Any]:
    return launch.run(PROGRAM).said


@pytest.mark.parametrize("method", ["fit", "evaluate", "predict"])
def test_our_functions_take_what_keras_takes_in_its_order_with_its_defaults(method: str):
    theirs = {name: default for name, default in said()["keras"][method].items() if name != "kwargs"}
    ours = dict(list(said()["dtj"][method].items())[: len(theirs)])
    if method == "fit":
        theirs["epochs"] = "None"  # Keras' 1, or no limit beside steps
    assert list(ours.items()) == list(theirs.items())


def test_keras_compile_has_no_argument_that_we_do_not_know():
    assert set(said()["keras"]["compile"]) == COMPILE
