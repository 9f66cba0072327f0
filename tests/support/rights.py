"""What the chart allows the operator, for servers that do not ask the chart themselves."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

FILE: Final = Path(__file__).with_suffix(".yaml")


@cache
def rights() -> list[tuple[str, list[dict[str, Any]]]]:
    """(namespace, RBAC rules); the namespace is empty for what is allowed in all."""
    return [(grant["namespace"], grant["rules"]) for grant in yaml.safe_load(FILE.read_text())]
