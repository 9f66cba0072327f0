"""The termination message."""

import json

from dtj_trainer.contract import TERMINATION_KEYS
from dtj_trainer.supervisor.termination_message import TerminationMessage


def test_the_termination_message_has_the_contracts_keys_and_fits():
    metrics = {f"metric_{i}": float(i) for i in range(400)}
    for message in (
        TerminationMessage("done", 0),
        TerminationMessage("user-error", 1, 'ä\n"' * 3000, metrics={"loss": 0.1}),
        TerminationMessage("user-error", 1, "x" * 9000, metrics=metrics),
    ):
        wire = message.to_json()
        assert len(wire) <= 4000
        assert tuple(json.loads(wire)) == TERMINATION_KEYS
    assert json.loads(TerminationMessage("user-error", 1, "y" * 9000, metrics={"a": 1.0}).to_json())["metrics"] == {
        "a": 1.0
    }
