from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dtj_operator.kube.merge_patch import create_merge_patch

values = st.recursive(
    st.booleans() | st.integers() | st.text(max_size=3) | st.lists(st.integers(), max_size=2),
    lambda inner: st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(st.text(max_size=2), values, max_size=4)


def applied(old: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """What a server makes of `old` with that patch."""
    result = dict(old)
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        elif isinstance(value, dict):
            before = result.get(name)
            result[name] = applied(before if isinstance(before, dict) else {}, value)
        else:
            result[name] = value
    return result


@given(objects, objects)
def test_applying_the_difference_gives_the_new_value(old, new):
    assert applied(old, create_merge_patch(old, new)) == new


@given(objects)
def test_equal_values_need_no_patch(value):
    assert create_merge_patch(value, value) == {}


def test_what_has_gone_is_removed_by_name():
    assert create_merge_patch({"a": 1, "b": {"c": 1, "d": 2}}, {"b": {"d": 2}}) == {"a": None, "b": {"c": None}}


def test_a_null_counts_as_missing():
    assert create_merge_patch({}, {"a": None}) == {}
