"""`dtj convert`: what it prints, what it says, and how it ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from dtj.cli.manifests import dump
from tests.support.foreign_jobs import TFJOBS, VOLCANO_JOBS, replica, tfjob, volcano
from tests.support.source_roots import TRAINER

ENVIRONMENT = os.environ | {"PYTHONPATH": TRAINER}
CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"a": "1e3", "b": "y"}}
UNKNOWN_ROLE = tfjob({"Trainer": replica()})
NO_ROLE = "spec.tfReplicaSpecs.Trainer is no role: make it Chief, Worker, PS or Evaluator, or take it out."


def convert(*arguments: str, stdin: str | bytes = "", **environment: str) -> subprocess.CompletedProcess[str]:
    given = stdin.encode() if isinstance(stdin, str) else stdin
    command = [sys.executable, "-m", "dtj", "convert", *arguments]
    ended = subprocess.run(command, input=given, capture_output=True, check=False, env=ENVIRONMENT | environment)
    assert b"Traceback" not in ended.stderr
    return subprocess.CompletedProcess(command, ended.returncode, ended.stdout.decode(), ended.stderr.decode())


def documents(text: str) -> list[Any]:
    return list(yaml.safe_load_all(text))


def stream(*given: Any) -> str:
    return "---\n".join(map(dump, given))


def test_every_document_is_converted_or_printed_as_it_is(tmp_path: Path):
    file = tmp_path / "jobs.yaml"
    text = "# jobs\n" + stream(TFJOBS["workers"], CONFIG_MAP, VOLCANO_JOBS["workers"])
    file.write_text(text)
    ended = convert(str(file))
    assert ended.returncode == 0
    first, second, third = documents(ended.stdout)
    assert first["kind"] == third["kind"] == "DistributedTrainingJob"
    assert second == CONFIG_MAP
    last = text[: text.rindex("---")].count("\n") + 2
    lines = {":".join(line.split(": ", 2)[:2]) for line in ended.stderr.splitlines()}
    assert lines == {f"{file}:2:TFJob mnist", f"{file}:{last}:Job mnist"}


def test_what_cannot_be_converted_ends_with_1_and_the_others_are_printed(tmp_path: Path):
    first, second = tmp_path / "first.yaml", tmp_path / "second.json"
    text = stream(UNKNOWN_ROLE, TFJOBS["workers"]) + "---\na: b: c\n"
    first.write_text(text)
    second.write_text(json.dumps(CONFIG_MAP))
    ended = convert(str(first), str(tmp_path / "third.yaml"), str(second), "-", stdin="just words")
    assert ended.returncode == 1
    assert [one["kind"] for one in documents(ended.stdout)] == ["DistributedTrainingJob", "ConfigMap"]
    errors = [line for line in ended.stderr.splitlines() if ": error: " in line]
    assert errors == [
        f"{first}:1: error: TFJob mnist: {NO_ROLE}",
        f"{first}:{text.count(chr(10))}: error: this is not valid YAML: mapping values are not allowed here.",
        f"{tmp_path / 'third.yaml'}: error: the file cannot be read: No such file or directory.",
        "stdin:1: error: the document is no object: every manifest has apiVersion, kind and metadata.",
    ]
    assert ended.stderr.splitlines()[-1] == "Not converted: 4. All else is printed."


@pytest.mark.parametrize(
    "name", ["metadata: {name: " + "a" * 41 + "}", "metadata: {name: 7}", "metadata: []", "metadata: &a [*a]"]
)
def test_a_name_that_no_job_can_have_ends_with_1(name: str):
    ended = convert("-", stdin=f"apiVersion: kubeflow.org/v1\nkind: TFJob\n{name}\n")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith("stdin:1: error: TFJob")


@pytest.mark.parametrize(
    "list_kind", [{"apiVersion": "v1", "kind": "List"}, {"apiVersion": "kubeflow.org/v1", "kind": "TFJobList"}]
)
def test_the_items_of_a_list_are_converted_one_by_one(list_kind: dict[str, Any]):
    items = [TFJOBS["workers"], UNKNOWN_ROLE, CONFIG_MAP]
    if list_kind["kind"] == "TFJobList":  # as an API server answers
        items = [{name: value for name, value in item.items() if name not in list_kind} for item in items[:2]] + items[
            2:
        ]
    ended = convert("-", stdin=json.dumps(list_kind | {"metadata": {}, "items": items}))
    assert ended.returncode == 1
    assert [one["kind"] for one in documents(ended.stdout)] == ["DistributedTrainingJob", "ConfigMap"]
    assert NO_ROLE in ended.stderr


@pytest.mark.parametrize(
    "document",
    [
        volcano([]) | {"spec": {"plugins": {"pytorch": []}}},
        {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob"},
    ],
)
def test_a_job_of_another_framework_is_printed_and_told(document: dict[str, Any]):
    ended = convert("-", stdin=stream(document))
    assert (ended.returncode, documents(ended.stdout)) == (0, [document])
    assert "is no TFJob and no Volcano job with the plugin tensorflow: it is printed as it is." in ended.stderr


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("kind: [List]\na: &a [*a]\n", "stdin:1: error: the document contains itself"),
        (b"a: \xff\n", "stdin: error: the file is not text in UTF-8: byte 3 is 0xff."),
    ],
)
def test_what_no_reader_can_know_ends_with_1(given: str | bytes, words: str):
    ended = convert("-", stdin=given)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert words in ended.stderr


def test_half_a_character_is_printed_as_it_was_written():
    ended = convert("-", stdin='{"kind": "ConfigMap", "data": {"a": "\\ud800"}}')
    assert (ended.returncode, ended.stderr) == (0, "")
    assert '"\\uD800"' in ended.stdout


def test_letters_of_all_languages_survive_where_the_terminal_knows_none():
    ended = convert("-", stdin=stream(CONFIG_MAP | {"data": {"ä": "日"}}), PYTHONIOENCODING="ascii", LC_ALL="C")
    assert documents(ended.stdout)[0]["data"] == {"ä": "日"}


def test_a_reader_that_leaves_early_is_no_error(tmp_path: Path):
    file = tmp_path / "many.yaml"
    file.write_text(stream(*[CONFIG_MAP] * 3000))
    ended = subprocess.run(
        f"set -o pipefail; {sys.executable} -m dtj convert {file} | head -n 1", shell=True, executable="/bin/bash",
        capture_output=True, text=True, check=False, env=ENVIRONMENT,
    )  # fmt: skip
    assert (ended.stdout, ended.stderr) == ("---\n", "")


def test_without_the_packages_of_the_client_there_is_one_sentence(tmp_path: Path):
    """As in the trainer's image, which has no typer."""
    (tmp_path / "typer.py").write_text("raise ModuleNotFoundError(\"No module named 'typer'\", name='typer')\n")
    ended = convert("-", PYTHONPATH=os.pathsep.join([str(tmp_path), TRAINER]))
    assert ended.returncode == 1
    assert ended.stderr == (
        "dtj: the package typer is missing: install what the command needs with `pip install 'dtj-training[client]'`, "
        "or `pip install '.[client]'` in a checkout.\n"
    )


def test_without_a_file_it_says_how_it_is_called():
    ended = convert()
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "Usage: " in ended.stderr
