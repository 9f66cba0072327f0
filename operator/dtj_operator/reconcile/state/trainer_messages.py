"""What a pod says of itself. The pod belongs to the user: whatever it says, nothing may break."""

from __future__ import annotations

import json
import sys
from typing import Any

WHOLE_BELOW = 2**53
"""The API keeps numbers exactly up to here."""


def decoded(message: str) -> dict[str, Any]:
    """The termination message of our trainer; empty for anybody else's."""
    if not message.startswith("{"):
        return {}
    try:
        told = json.loads(message)
    except (ValueError, RecursionError):
        return {}
    return told if isinstance(told, dict) else {}


def whole(value: object) -> int | None:
    """A count; None for all else."""
    return value if type(value) is int and 0 <= value < WHOLE_BELOW else None


def real(value: object) -> float | None:
    """A finite number; None for all else."""
    if type(value) in {int, float} and abs(value) <= sys.float_info.max:  # type: ignore[arg-type]
        return float(value)  # type: ignore[arg-type]
    return None


def writable(text: str) -> str:
    """The text without halves of characters, which JSON can say and UTF-8 cannot."""
    return text.encode(errors="replace").decode()
