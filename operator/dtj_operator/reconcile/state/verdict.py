"""What a policy may say to `decide`."""

from __future__ import annotations

from enum import Enum, auto


class Verdict(Enum):
    """The answer of a policy that has one; others answer None, and the next one is asked."""

    SETTLED = auto()
    """Nothing that comes later in the list matters in this pass."""
