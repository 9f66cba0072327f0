"""Manifests are read as Kubernetes reads them, and what is written is understood by every reader alike."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dtj.cli.manifests import ManifestError, dump, parse

TEXT = st.text("aZ019.-+_:/ eEyYnNoOxX~#'\"\n\t{}é", max_size=9)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12:30", "12:30"),
        ("2026-01-01", "2026-01-01"),
        ("2026-01-01T15:29:15Z", "2026-01-01T15:29:15Z"),
        ("0644", 420),
        ("0o644", 420),
        ("0x1F", 31),
        ("-7", -7),
        ("1_000", 1000),
        ("1e3", 1000.0),
        ("1.5", 1.5),
        (".inf", float("inf")),
        ("yes", True),
        ("off", False),
        ("None", "None"),
        ("null", None),
        ("~", None),
        ("", None),
        ("y", "y"),
        ('"1e3"', "1e3"),
        ("10Gi", "10Gi"),
        ("=", "="),
        ("|\n  one\n  two\n", "one\ntwo\n"),
        ("!!str 7", "7"),
    ],
)
def test_a_value_is_what_it_is_for_kubernetes(text: str, value: Any):
    ((_, document),) = parse(f"a: {text}\n")
    assert document == {"a": value}
    assert type(document["a"]) is type(value)


@given(VALUES)
@settings(deadline=None)
def test_what_is_written_is_read_again_as_it_was(value: Any):
    ((_, document),) = parse(dump({"a": value}))
    assert document == {"a": value}


@pytest.mark.parametrize("text", ["1e3", "12:30", "2026-01-01", "0o17", "y", "N", "on", "null", "1_0", "+1", ".5", "~"])
def test_a_string_that_some_reader_takes_for_something_else_is_quoted(text: str):
    assert dump({"a": text})[3] in "'\""


def test_lines_of_a_text_and_the_order_of_fields_are_kept():
    assert dump({"b": "one\ntwo\n", "a": "x" * 200}) == "b: |\n  one\n  two\na: " + "x" * 200 + "\n"


def test_documents_have_the_line_at_which_they_begin():
    text = "# a comment\na: 1\n---\n---\n# another\nb: &b {c: 2}\nd: *b\ne: {<<: *b, f: 3}\n...\n"
    assert list(parse(text)) == [(2, {"a": 1}), (6, {"b": {"c": 2}, "d": {"c": 2}, "e": {"c": 2, "f": 3}})]
    assert list(parse("")) == list(parse("# nothing\n---\n")) == []


def test_aliases_are_written_out():
    ((_, document),) = parse("a: &a [1]\nb: *a\n")
    assert "&" not in dump(document)


@pytest.mark.parametrize("text", ['{"a": "\\ud83d\\ude00"}', '\n{\n\t"a": "\U0001f600"\n}\n', "{a: \U0001f600}"])
def test_json_is_read_too(text: str):
    assert [document for _, document in parse(text)] == [{"a": "\U0001f600"}]


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("a: 1\nb: c: d\n", 2, "mapping values are not allowed here"),
        ("a: 1\nb: [\n", 3, "expected the node content"),
        ("a: 1\n\nb:\n  c: 1\n  c: 2\n", 5, "the key c is there twice"),
        ('{"a": 1,\n "a": 2}', 2, "the key a is there twice"),
        ('{"a": 1', 1, "expected ',' or '}'"),
        ("a: 1\nb: !Ref c\n", 2, "!Ref"),
        ("a: !!int x\n", 1, "x is no int"),
        ("a: 1\nb: \x01\n", 2, "the character 0x1"),
        ("a: *b\n", 1, "found undefined alias"),
        ("a: " + "[" * 5000, 1, "nested too deeply"),
        ("[" * 100_000, 1, "nested too deeply"),
        ("\ta: 1", 1, "cannot start any token"),
    ],
)
def test_what_is_no_yaml_is_told_with_its_line(text: str, line: int, words: str):
    with pytest.raises(ManifestError, match="this is ") as raised:
        list(parse(text))
    assert words in str(raised.value)
    assert raised.value.line == line


def test_documents_before_a_fault_are_read():
    documents = parse("a: 1\n---\nb: c: d\n")
    assert next(documents) == (1, {"a": 1})
    with pytest.raises(ManifestError):
        next(documents)


@given(st.text("a1:-?[]{},&*!|>'\"#%@`<~= \n\té\x01", max_size=30))
@settings(deadline=None)
def test_any_text_is_read_or_refused(text: str):
    with suppress(ManifestError):
        for _, document in parse(text):
            with suppress(RecursionError):  # an alias of what it stands in
                dump(document)
