"""What a program finds in TensorFlow, though most of it is loaded only when a program looks for it."""

import pytest

from tests.trainer.supervisor.conftest import told

pytestmark = pytest.mark.trainer


def test_a_program_in_a_pod_finds_all_of_tensorflow():
    plain, preloaded = told("public_names.py"), told("public_names.py", "preloaded")
    assert len(plain) > 2_500
    assert preloaded == plain
