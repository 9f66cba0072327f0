"""Whatever a manifest holds: a sentence or a conversion, never a traceback, and no value that is lost unmentioned."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dtj.convert import Conversion, ConversionError, convert
from dtj.convert.fields import one_line
from tests.support.foreign_jobs import TFJOBS, VOLCANO_JOBS

JOBS = [*TFJOBS.values(), *VOLCANO_JOBS.values()]
IDS = [f"TFJob: {name}" for name in TFJOBS] + [f"Volcano: {name}" for name in VOLCANO_JOBS]
Path = tuple[str | int, ...]
WRONG: list[Any] = [None, True, 90210, 2.5, "stray-words", [], ["stray-words"], [90210], {}, {"stray": 90210}]
"""One value of each type, and what may stand in a list or an object by mistake."""


def written(path: Path) -> str:
    parts = (f"[{part}]" if isinstance(part, int) else f".{one_line(part)}" for part in path)
    return "".join(parts).removeprefix(".")


def parts_of(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Each object, list and value of a manifest, with its path."""
    yield path, value
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, part in parts:
        yield from parts_of(part, (*path, name))


def changed(document: Any, path: Path, value: Any) -> Any:
    """The document with another value at a path."""
    if not path:
        return value
    new = copy.copy(document)
    new[path[0]] = changed(document[path[0]], path[1:], value)
    return new


def lost(document: dict[str, Any], conversion: Conversion) -> list[str]:
    """The paths of all values that are neither in the new manifest nor named."""
    kept = {repr(value) for _, value in parts_of(conversion.manifest) if not isinstance(value, dict | list)}
    kept |= {repr(part) for path, _ in parts_of(conversion.manifest) for part in path}
    kept |= {repr(name) for name in ("TFJob", "Job", "kubeflow.org/v1", "batch.volcano.sh/v1alpha1")}
    return [
        written(path)
        for path, value in parts_of(document)
        if not isinstance(value, dict | list) and value not in {None, ""} and repr(value) not in kept
        if not any(is_named(path, value, note) for note in conversion.notes)
    ]


def is_named(path: Path, value: object, note: str) -> bool:
    """Whether a sentence names a value by its path, tells that a whole object is left out, or what a value becomes."""
    if re.match(rf"{re.escape(written(path))}[ :]", note) or f"({value}) becomes" in note:
        return True
    above = [written(path[:length]) for length in range(1, len(path))]
    return any(note.startswith(f"{one} ") and "left out" in note for one in above) or is_argument(path, value)


def is_argument(path: Path, value: object) -> bool:
    """Whether it is an argument of the plugin, which names a task or a port."""
    return path[:3] == ("spec", "plugins", "tensorflow") and bool(re.match(r"--(ps|worker|port)=", str(value)))


@pytest.mark.parametrize("document", JOBS, ids=IDS)
def test_each_value_of_a_job_is_in_the_new_one_or_named(document: dict[str, Any]):
    conversion = convert(document)
    assert conversion is not None
    assert lost(document, conversion) == []


@pytest.mark.parametrize("document", JOBS, ids=IDS)
def test_a_value_of_a_wrong_type_is_named_with_its_path_or_kept_at_every_place(document: dict[str, Any]):
    told = 0
    for path, before in parts_of(document):
        for value in WRONG:
            if not path or type(value) is type(before):
                continue
            told += check(changed(document, path, value), path)
    assert told > 20


def check(document: Any, path: Path) -> bool:
    """Convert; returns whether it ended in a sentence, which names the job, and the changed place or one beside it."""
    try:
        conversion = convert(document)
    except ConversionError as problem:
        words = str(problem)
        assert re.match(r"(TFJob|Job)( .+)?: .+ .+", words), words
        assert words.isprintable()
        assert "None" not in words or "null" not in words
        return True
    if conversion is not None:
        assert all(note.isprintable() and note.endswith(".") for note in conversion.notes)
        assert lost(document, conversion) == [], written(path)
    return False


def test_the_sentence_names_document_path_and_type():
    document = changed(TFJOBS["volumes"], ("spec", "tfReplicaSpecs", "Worker", "replicas"), "2")
    with pytest.raises(ConversionError) as raised:
        convert(document)
    assert str(raised.value) == "TFJob mnist: spec.tfReplicaSpecs.Worker.replicas is a string (2): make it an integer"


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (("metadata",), [], "metadata is a list: make it an object"),
        (("metadata", "labels"), {"a": 1}, "metadata.labels.a is an integer (1): make it a string"),
        (("spec",), "spec", "spec is a string (spec): make it an object"),
        (("spec", "tfReplicaSpecs"), [1], "spec.tfReplicaSpecs is a list: make it an object"),
        (("spec", "tfReplicaSpecs", "Worker"), 3, "spec.tfReplicaSpecs.Worker is an integer (3): make it an object"),
        (("spec", "runPolicy"), True, "spec.runPolicy is a boolean (True): make it an object"),
        (("spec", "successPolicy"), 1.5, "spec.successPolicy is a number (1.5): make it a string"),
        (
            ("spec", "tfReplicaSpecs", "Worker", "template", "spec", "containers"),
            {},
            "containers is an object: make it",
        ),
        (("spec", "tfReplicaSpecs", "Worker", "template", "spec", "containers"), None, "containers has no container"),
        (
            ("spec", "tfReplicaSpecs", "Worker", "template", "spec", "containers"),
            [None],
            "containers[0] is null: make it",
        ),
        (("spec", "tfReplicaSpecs", "Worker"), {1: 2}, "spec.tfReplicaSpecs.Worker has the key 1: put it in quotes"),
    ],
)
def test_every_wrong_type_has_its_sentence(path: Path, value: Any, words: str):
    document = copy.deepcopy(TFJOBS["workers"])
    document["spec"] |= {"runPolicy": {}, "successPolicy": ""}
    with pytest.raises(ConversionError) as raised:
        convert(changed(document, path, value))
    assert str(raised.value).startswith("TFJob")
    assert words in str(raised.value)


TEXT = st.text("aZ0.-/_ é\n", max_size=8)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)


@given(st.data())
def test_any_changes_end_in_a_sentence_or_a_conversion(data: st.DataObject):
    document: Any = data.draw(st.sampled_from(JOBS))
    for _ in range(data.draw(st.integers(1, 3))):
        path, value = data.draw(st.sampled_from(list(parts_of(document))))
        assume(path)
        if isinstance(value, dict) and data.draw(st.booleans()):
            document = changed(document, path, value | {data.draw(TEXT): data.draw(JSON)})
        else:
            document = changed(document, path, data.draw(JSON))
    check(document, ())
