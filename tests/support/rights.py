"""The operator's RBAC rules in the chart, for servers that do not render the chart."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

FILE: Final = Path(__file__).with_suffix(".yaml")


@cache
def rights() -> list[tuple[str, list[dict[str, Any]]]]:
    """Return (namespace, RBAC rules); the namespace is empty for cluster-wide rules."""
    return [(grant["namespace"], grant["rules"]) for grant in yaml.safe_load(FILE.read_text())]
