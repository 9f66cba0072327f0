"""The tutorial's program runs, and TensorFlow has the names that docs/howto/choose-a-strategy.md says it has."""

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


def test_the_program_of_the_tutorial_runs(tmp_path):
    found = re.search(
        r"^```python\n(.*?)^```", (launch.ROOT / "docs" / "getting-started.md").read_text(), re.MULTILINE | re.DOTALL
    )
    assert found is not None
    (tmp_path / "train.py").write_text(found[1])
    ended = launch.run("train.py", folder=tmp_path)
    assert ended.code == 0, ended.output[-3000:]
    last = re.fullmatch(r"loss (0\.\d+) after 2000 steps", ended.output.splitlines()[-1])
    assert last is not None, ended.output[-3000:]
    assert float(last[1]) < 0.01
