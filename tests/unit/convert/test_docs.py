"""The pages on the command show what it really prints and says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from dtj.convert.pod_template import LEFT_OUT as LEFT_OUT_OF_A_POD
from dtj.convert.tfjob import ROLES, RUN_POLICY
from dtj.convert.volcano import LEFT_OUT, PLUGINS_LEFT_OUT, TASK_LEFT_OUT
from tests.support.source_roots import TRAINER

DOCS = Path(__file__).resolve().parents[3] / "docs"
TEXT = (DOCS / "howto" / "migrate-from-tfjob.md").read_text()
HELP = (DOCS / "reference" / "dtj.md").read_text()
BLOCKS = re.findall(r"^```(yaml|console)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
GIVEN, CONVERTED, SAID = (text for _, text in BLOCKS)


def dtj(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": TRAINER, "COLUMNS": "100", "_TYPER_FORCE_DISABLE_TERMINAL": "1"}
    command = [sys.executable, "-m", "dtj", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, env=environment)


def test_the_command_prints_and_says_what_the_page_shows(tmp_path: Path):
    (tmp_path / "digits.yaml").write_text(GIVEN)
    command, _, said = SAID.partition("\n")
    assert command == "$ dtj convert digits.yaml > converted.yaml"
    ended = dtj("convert", "digits.yaml", cwd=tmp_path)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, f"---\n{CONVERTED}", said)


@pytest.mark.parametrize(
    "name",
    sorted({
        *RUN_POLICY, *LEFT_OUT_OF_A_POD, *LEFT_OUT, *TASK_LEFT_OUT, *PLUGINS_LEFT_OUT, "enableDynamicWorker",
        "successPolicy", "tfjob-port",
    }),
)  # fmt: skip
def test_every_field_that_changes_is_on_the_page(name: str):
    assert re.search(rf"[`.]{name}[`: ]", TEXT)


def test_every_role_is_on_the_page():
    assert {role for role in ROLES if not re.search(rf"[`.]{role}`", TEXT, re.IGNORECASE)} == set()


def test_the_help_is_that_of_the_reference(tmp_path: Path):
    (shown,) = re.findall(r"^```console\n\$ dtj convert --help\n(.*?)^```$", HELP, re.MULTILINE | re.DOTALL)
    said = dtj("convert", "--help", cwd=tmp_path).stdout
    assert [line.strip() for line in said.split("\n") if line.strip()] == [
        line.strip() for line in shown.split("\n") if line.strip()
    ]
