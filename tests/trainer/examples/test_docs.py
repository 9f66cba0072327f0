"""What docs/howto/choose-a-strategy.md says of TensorFlow's names is so."""

import re

import pytest

from tests.trainer.examples.test_examples import PROGRAMS
from tests.trainer.training import launch

pytestmark = pytest.mark.trainer

ROW = re.compile(r"^\| `(tf\.[\w.]+)` \| no such name \| (.*) \|$", re.MULTILINE)
NAME = re.compile(r"`(tf\.[\w.]+)`")


def test_names_that_articles_use_are_missing_and_those_to_use_instead_are_there():
    rows = ROW.findall((launch.ROOT / "docs" / "howto" / "choose-a-strategy.md").read_text())
    wrong = [name for name, _ in rows]
    right = [name for _, instead in rows for name in NAME.findall(instead)]
    assert len(wrong) >= 10
    assert len(right) >= len(wrong)
    assert launch.run("names.py", *wrong, *right, folder=PROGRAMS).said["missing"] == wrong
