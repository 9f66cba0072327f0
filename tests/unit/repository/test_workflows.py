"""The workflows for GitHub, as far as they can be checked here."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yaml"))
TARGETS = set(re.findall(r"^\.PHONY: (\S+)", (ROOT / "Makefile").read_text(), re.MULTILINE))


def steps(workflow: dict[str, Any]) -> list[dict[str, Any]]:
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_a_workflow_has_few_rights_a_time_limit_and_named_versions(file: Path):
    workflow = yaml.safe_load(file.read_text())
    assert workflow["permissions"] == {"contents": "read"}
    assert all(job["timeout-minutes"] <= 90 for job in workflow["jobs"].values())
    assert all(re.search(r"@v\d", step["uses"]) for step in steps(workflow) if "uses" in step)


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_each_command_of_a_workflow_is_a_make_target(file: Path):
    commands = [line for step in steps(yaml.safe_load(file.read_text())) for line in step.get("run", "").splitlines()]
    called = [re.search(r"\bmake ([a-z0-9-]+)$", line) for line in commands]
    assert [line for line, make in zip(commands, called, strict=True) if not make or make[1] not in TARGETS] == []
