"""The state of callbacks, in a checkpoint and back."""

import math
from typing import Any

import numpy as np
import pytest

from dtj_trainer.checkpoint import content
from dtj_trainer.checkpoint.callback_state import (
    CallbackState,
    callback_states,
    continued_files,
    numbered,
    set_callback_states,
)
from dtj_trainer.checkpoint.content import CheckpointContent
from dtj_trainer.errors import UserError


class Memory:
    def __init__(self, state: Any = None) -> None:
        self.state = state

    def get_state(self) -> Any:
        return self.state

    def set_state(self, state: Any) -> None:
        self.state = state


class Forgetful:
    """Has no state."""


def through_a_checkpoint(*states: CallbackState) -> tuple[CallbackState, ...]:
    return tuple(content.restore(content.serialize(CheckpointContent(callbacks=states))).callbacks)


STATE: dict[str, Any] = {
    "numbers": [1, 2.5, True, None, math.inf, 10**30],
    "by epoch": {0: ("a", np.float32(0.25)), 1: ("b", np.int64(7))},
    "arrays": [np.arange(6, dtype=np.int16).reshape(2, 3), np.zeros(0)],
    "nothing": {},
}


def test_a_callbacks_own_state_comes_back_with_all_its_types():
    import ml_dtypes

    state = {**STATE, "brain": np.array([1.5], ml_dtypes.bfloat16)}
    states = callback_states(numbered([Memory(state), Forgetful(), Memory({"other": 1})]))
    assert [(each.kind, each.number) for each in states] == [("Memory", 0), ("Memory", 1)]
    first, second = Memory(), Memory()
    set_callback_states(numbered([first, second]), through_a_checkpoint(*states))
    np.testing.assert_equal(first.state, state)
    assert [each.dtype for each in first.state["arrays"]] == [each.dtype for each in state["arrays"]]
    assert first.state["brain"].dtype == ml_dtypes.bfloat16
    assert type(first.state["by epoch"][0][1]) is np.float32
    assert second.state == {"other": 1}


@pytest.mark.parametrize(
    ("kind", "arguments", "remembers"),
    [
        ("EarlyStopping", {}, {"wait": 2, "best": 0.5, "best_epoch": 3, "stopped_epoch": 0}),
        ("ReduceLROnPlateau", {}, {"wait": 1, "best": np.float32(0.5), "cooldown_counter": 4}),
        ("ModelCheckpoint", {"filepath": "x.keras", "save_freq": 5}, {"_batches_seen_since_last_saving": 3, "best": 1}),
    ],
)
def test_what_keras_callbacks_remember_comes_back_and_what_they_were_given_does_not(kind, arguments, remembers):
    import keras

    callback = getattr(keras.callbacks, kind)(**arguments)
    vars(callback).update(remembers)
    (state,) = through_a_checkpoint(*callback_states(numbered([callback])))
    vars(callback).update(dict.fromkeys(remembers))
    callback.verbose = 7
    set_callback_states(numbered([callback]), [state])
    assert {name: getattr(callback, name) for name in remembers} == remembers
    assert callback.verbose == 7


def test_what_a_checkpoint_cannot_hold_is_refused_by_name():
    states = callback_states(numbered([Memory({"file": object()})]))
    with pytest.raises(
        UserError, match=r"the callback Memory remembers <object .*; have its get_state return numbers, "
    ):
        content.serialize(CheckpointContent(callbacks=states))


@pytest.mark.parametrize("appends", [False, True])
def test_a_csv_file_goes_on_without_the_rows_past_the_checkpoint(appends, tmp_path):
    import keras

    file = tmp_path / "log.csv"
    file.write_text("of an earlier training\n" if appends else "")
    logger = keras.callbacks.CSVLogger(str(file), append=appends)
    logger.on_train_begin()
    logger.on_epoch_end(0, {"loss": 0.5})
    states = callback_states(numbered([logger]))
    logger.on_epoch_end(1, {"loss": 0.25})
    logger.csv_file.close()
    after = keras.callbacks.CSVLogger(str(file), append=appends)
    with continued_files(numbered([after]), states):
        after.on_train_begin()
    assert after.append is appends
    after.on_epoch_end(1, {"loss": 0.125})
    after.on_train_end()
    assert [line.split(",")[:2] for line in file.read_text().splitlines() if "," in line][-2:] == [
        ["0", "0.5"],
        ["1", "0.125"],
    ]
    assert file.read_text().startswith("of an earlier training\n") is appends
