"""The exit-code table, each code asserted, and the page that prints it."""

from __future__ import annotations

from pathlib import Path

import pytest

from dtj_operator.reconcile.failures.exit_codes import ExitVerdict, exit_verdict

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "exit-codes.md"


@pytest.mark.parametrize(
    ("code", "verdict"),
    [
        (0, "success"),
        *((code, "permanent") for code in (1, 2, 3, 41, 74, 76, 126, 127, 128, 134, 139)),
        *((code, "retryable") for code in (42, 75, 129, 130, 137, 138, 140, 143, 200, 255)),
    ],
)
def test_code_table(code: int, verdict: str):
    assert exit_verdict(code) == verdict


def test_the_table_is_total():
    assert {exit_verdict(code) for code in range(-1, 1000)} == set(ExitVerdict)


def test_the_page_prints_the_table():
    listed: dict[int, str] = {}
    for line in PAGE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) > 2 and cells[0][:1].isdigit():
            for part in cells[0].split(","):
                first, _, last = part.strip().partition("\N{EN DASH}")
                for code in range(int(first), int(last or first) + 1):
                    listed.setdefault(code, cells[1])
    assert listed == {code: str(exit_verdict(code)) for code in range(256)}
