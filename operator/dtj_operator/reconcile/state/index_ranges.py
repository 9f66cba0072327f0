"""Lists of indexes as short text: `0-2,5`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dtj_operator.api.constants import REPLICAS_MAX

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_DIGITS = 9
"""More digits than any index has."""


def parse_ranges(text: str) -> list[int]:
    """Return `0-2,5` as [0, 1, 2, 5]; parts that are no ranges, and what no job has, are skipped."""
    indexes: list[int] = []
    for part in text.split(",") if text else ():
        first, _, last = part.partition("-")
        if _is_index(first) and (_is_index(last) or not last):
            indexes.extend(range(int(first), min(int(last or first), REPLICAS_MAX - 1) + 1))
        if len(indexes) >= REPLICAS_MAX:
            break
    return indexes[:REPLICAS_MAX]


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


def _is_index(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS


def _range(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"
