"""docs/reference lists every field of a job and every argument of the library, and no others."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest
import yaml

from dtj_operator.api.crd import crd
from dtj_operator.api.enums import Cause, ConditionType, EventReason, Reason

CHECKOUT = Path(__file__).resolve().parents[3]
PAGES = CHECKOUT / "docs" / "reference"
PUBLIC = CHECKOUT / "trainer-image" / "dtj_trainer"


def leaves(value: Any, place: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    """Yield values by their paths, without those of roles."""
    if isinstance(value, list):
        value = value[0] if value and isinstance(value[0], dict) else value
    if not isinstance(value, dict) or not value or place[-1:] == ("template",):
        return {place: value}
    return {path: leaf for name, below in value.items() for path, leaf in leaves(below, (*place, name)).items()}


def fields(schema: dict[str, Any], place: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    """Yield defaults by their paths; None where there is none."""
    schema = schema.get("items", schema)
    roles = {"worker": schema["additionalProperties"]} if "additionalProperties" in schema else {}
    inner = schema.get("properties", roles)
    if not inner or place[-1:] == ("template",):
        return {place: schema.get("default")}
    return {path: leaf for name, below in inner.items() for path, leaf in fields(below, (*place, name)).items()}


def test_the_page_of_a_job_has_every_field_with_its_default():
    found = re.search(r"```yaml\n(.*?)```", (PAGES / "job.md").read_text(), re.DOTALL)
    assert found is not None
    every = re.sub(r"^( *)# ((?:  )?\w+:)", r"\1\2", found[1], flags=re.MULTILINE)
    shown = leaves(yaml.safe_load(every)["spec"])
    schema = crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    wanted = fields(schema)
    assert shown.keys() == wanted.keys()
    otherwise = [path for path, default in wanted.items() if default and shown[path] != default]
    assert otherwise == [("replicaSpecs", "worker", "replicas")]


@pytest.mark.parametrize("function", ["fit", "train"])
def test_the_page_of_the_library_has_every_argument(function: str):
    _, fit, _, train, *_ = (PAGES / "python.md").read_text().split("\n## dtj.")[1:]
    tree = ast.parse((PUBLIC / "training" / f"{function}.py").read_text())
    (found,) = (node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == function)
    wanted = {argument.arg for argument in found.args.args + found.args.kwonlyargs}
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", fit, re.MULTILINE)
    written = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    if function == "train":
        missing = {name for name in wanted if f"`{name}" not in train}
    else:
        missing = (wanted ^ written) - {"model"}
    assert not missing - {"name"}


@pytest.mark.parametrize("words", [ConditionType, Reason, EventReason, Cause])
def test_the_page_of_conditions_names_every_condition_reason_event_and_cause(words: type[StrEnum]):
    page = (PAGES / "conditions-and-events.md").read_text()
    assert [word for word in words if not re.search(rf"\b{word}\b", page)] == []


def test_the_page_of_the_operators_flags_has_every_flag():
    page = (PAGES / "operator-flags.md").read_text()
    shown = subprocess.run(
        [sys.executable, "-m", "dtj_operator", "run", "--help"],
        check=True, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": str(CHECKOUT / "operator")},
    ).stdout  # fmt: skip
    flags = {flag for flag in re.findall(r"^  (--[a-z-]+)", shown, re.MULTILINE) if not flag.startswith("--no-")}
    assert set(re.findall(r"^\| `(--[a-z-]+)", page, re.MULTILINE)) == flags
