"""JSON merge patch (RFC 7386) between two values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


def create_merge_patch(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Return the smallest patch that makes `old` into `new`; empty when they are equal.

    What is missing in `new` is removed (null); lists are replaced whole. Nulls in `new` count as missing,
    as the API server drops them.
    """
    patch: dict[str, Any] = {}
    for name, value in new.items():
        if value is None:
            continue
        before = old.get(name)
        if before == value:
            continue
        if isinstance(value, dict) and isinstance(before, dict):
            inner = create_merge_patch(before, value)
            if inner:
                patch[name] = inner
        else:
            patch[name] = value
    for name, value in old.items():
        if value is not None and new.get(name) is None:
            patch[name] = None
    return patch
