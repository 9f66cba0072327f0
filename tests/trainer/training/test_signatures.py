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
def said(devices: int = 1) -> dict[str, Any]:
    return launch.run(PROGRAM, environment={"DTJ_LOGICAL_DEVICES": str(devices)} if devices > 1 else {}).said


@pytest.mark.parametrize("method", ["fit", "evaluate", "predict"])
def test_our_functions_take_what_keras_takes_in_its_order_with_its_defaults(method: str):
    theirs = {name: default for name, default in said()["keras"][method].items() if name != "kwargs"}
    ours = dict(list(said()["dtj"][method].items())[: len(theirs)])
    if method == "fit":
        theirs["epochs"] = "None"  # Keras' 1, or no limit beside steps
    assert list(ours.items()) == list(theirs.items())


def test_keras_compile_has_no_argument_that_we_do_not_know():
    assert set(said()["keras"]["compile"]) == COMPILE


def test_compile_arguments_act_on_one_device():
    assert said()["jit_compile"] == pytest.approx(said()["plain"], rel=1e-5)
    assert said()["gradient_accumulation_steps"][0] > said()["plain"][0] * 0.5
    assert said()["gradient_accumulation_steps"] != pytest.approx(said()["plain"], rel=1e-3)


@pytest.mark.parametrize(
    ("argument", "devices", "words"),
    [
        ("run_eagerly", 1, "the model was compiled with run_eagerly=True, "),
        (
            "run_eagerly",
            2,
            "the model was compiled with run_eagerly=True, ",
        ),
        (
            "jit_compile",
            2,
            "the model was compiled with jit_compile=True, which does not work under Mirrored ",
        ),
    ],
)
def test_what_is_refused_is_named(argument: str, devices: int, words: str):
    assert said(devices)[argument].startswith(words)
