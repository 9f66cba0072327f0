"""How figures are written down."""

from __future__ import annotations

import json
from typing import Any


def rounded(figures: dict[str, Any], digits: int) -> dict[str, Any]:
    """The same, each number with so many digits behind the point, however deep it stands."""
    return dict(json.loads(json.dumps(figures), parse_float=lambda text: round(float(text), digits)))
