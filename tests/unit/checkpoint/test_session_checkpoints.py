"""What a program that trains by hand may call a step."""

from types import SimpleNamespace

import numpy as np
import pytest

from dtj_trainer.checkpoint.session_checkpoints import whole_step
from dtj_trainer.errors import UserError


@pytest.mark.parametrize("step", [3, np.int64(3), np.array(3), SimpleNamespace(numpy=lambda: np.int32(3))])
def test_a_step_is_counted_in_whatever_counts(step):
    assert type(whole_step(step)) is int
    assert whole_step(step) == 3


@pytest.mark.parametrize("step", ["best", 3.5, None])
def test_what_is_no_step_is_the_programs_error(step):
    with pytest.raises(UserError, match="is no step; give report and save the number of steps"):
        whole_step(step)
