"""Scripts that do not ask for us as they should end, or warn, in one sentence that names the line to change."""

import re

import pytest

from tests.trainer.supervisor.conftest import Launcher, until

pytestmark = pytest.mark.trainer

SENTENCES = {
    "estimator": r"this TensorFlow has no Estimators any more \(own_strategy\.py, line \d+\); .*dtj\.fit\(model, …\)$",
    "tutorial": r"model\.fit of Keras 3 does not work in several processes \(own_strategy\.py, line \d+\); call dtj",
    "scope": r"the program builds a strategy of its own beside the job's \(own_strategy\.py, line \d+\); remove it ",
    "train_on_batch": r"model\.train_on_batch of Keras 3 does not work in several processes \(own_strategy\.py, line ",
    "fit": r"model\.fit of Keras 3 does not work in several processes \(own_strategy\.py, line \d+\); write dtj\.fit\(",
}


@pytest.mark.parametrize("case", SENTENCES)
def test_a_script_that_does_not_ask_for_us_ends_with_the_line_to_change(case: str, launch: Launcher):
    for pod in launch.cluster("--threads", "1", "own_strategy.py", case):
        assert pod.wait() == 1, pod.log
        assert re.match(SENTENCES[case], pod.last_line), pod.log
        assert "Traceback" not in pod.log


def test_processes_that_train_separately_are_told_of_by_the_chief_alone(launch: Launcher):
    chief, other = launch.cluster("--threads", "1", "own_strategy.py", "alone")
    until(lambda: "dtj: model.fit trains another model in each of the 2 processes" in chief.log, chief.log)
    assert re.search(r"\(own_strategy\.py, line \d+\); call dtj\.init\(\) at the top of the program, ", chief.last_line)
    assert "dtj: " not in other.log
