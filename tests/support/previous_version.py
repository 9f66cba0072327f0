"""The version of the operator before this one, as e2e/previous keeps it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).resolve().parents[2] / "e2e" / "previous"
WHEEL: Final = next(FOLDER.glob("*.whl"))
CHART: Final = next(FOLDER.glob("dtj-operator-*.tgz"))
