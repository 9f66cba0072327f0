"""Lists of indexes as short text: `0-2,5`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def parse_ranges(text: str) -> list[int]:
    """Return `0-2,5` as [0, 1, 2, 5]; parts that are no ranges are skipped."""
    indexes: list[int] = []
    for part in text.split(",") if text else ():
        first, _, last = part.partition("-")
        if first.isdigit() and (last.isdigit() or not last):
            indexes.extend(range(int(first), int(last or first) + 1))
    return indexes


def format_ranges(indexes: Iterable[int]) -> str:
    """Return [0, 1, 2, 5] as `0-2,5`."""
    parts: list[str] = []
    first = last = -2
    for index in sorted(indexes):
        if index == last + 1:
            last = index
            continue
        if last >= 0:
            parts.append(_range(first, last))
        first = last = index
    if last >= 0:
        parts.append(_range(first, last))
    return ",".join(parts)


def _range(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"
