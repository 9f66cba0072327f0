"""`make equality`: trains all kinds of losses in every way to divide a batch, and compares the weights with Keras'."""

from __future__ import annotations

import argparse
import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from tests.equality.columns import COLUMNS, Weights, train

RESULT: Final = Path(__file__).parents[2] / "build" / "results" / "equality.json"
KEPT: Final = Path(__file__).parents[2] / "bench" / "results" / "equality.json"
BOUND, BOUND_IN_BFLOAT16 = 1e-5, 1e-2
"""Norm of the difference of all weights over their norm."""


def main() -> int:
    """Run the command line; returns 1 when a cell differs."""
    parser = argparse.ArgumentParser(prog="make equality", description=__doc__)
    parser.add_argument("--keep", action="store_true", help=f"also keep the result in {KEPT.parent.name}/")
    keep = parser.parse_args().keep
    found: dict[str, dict[str, float | str]] = {}
    for column in track(COLUMNS, "training"):
        wanted, trained = train(column)
        for kind in wanted:
            cell = trained.get(kind) if isinstance(trained, dict) else trained
            found.setdefault(kind, {})[column.name] = cell if isinstance(cell, str) else difference(wanted[kind], cell)
    result = {"date": datetime.now(UTC).isoformat(timespec="seconds"), "differences": found}
    for path in (RESULT, KEPT) if keep else (RESULT,):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(result, indent=2) + "\n")
    Console().print(table(found))
    return int(not all(equal(kind, cell) for kind, cells in found.items() for cell in cells.values()))


def difference(wanted: Weights, found: Weights | None) -> float | str:
    """Return the norm of the difference over the norm, or what is wrong."""
    if found is None:
        return "not trained"
    return float(np.linalg.norm(np.subtract(found, wanted)) / np.linalg.norm(wanted))


def equal(kind: str, cell: float | str) -> bool:
    """Return whether a cell is within its bound."""
    return not isinstance(cell, str) and cell <= (BOUND_IN_BFLOAT16 if kind == "bfloat16" else BOUND)


def table(found: dict[str, dict[str, float | str]]) -> Table:
    """Return the table for people."""
    shown = Table("loss", *(column.name for column in COLUMNS))
    for kind, cells in found.items():
        texts = [(cell if isinstance(cell, str) else f"{cell:.0e}", equal(kind, cell)) for cell in cells.values()]
        shown.add_row(kind, *(text if good else f"[red]{text}" for text, good in texts))
    return shown


if __name__ == "__main__":
    sys.exit(main())
