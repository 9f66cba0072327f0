"""Rounding of figures."""

from __future__ import annotations

import json
from typing import Any


def rounded(figures: dict[str, Any], digits: int) -> dict[str, Any]:
    """Return the figures with every number, however deeply nested, rounded to `digits` decimals."""
    return dict(json.loads(json.dumps(figures), parse_float=lambda text: round(float(text), digits)))
