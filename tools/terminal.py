"""Draws a terminal with a command and its output as an SVG that loads nothing from the network."""

import re
from collections.abc import Mapping
from itertools import zip_longest
from pathlib import Path
from types import MappingProxyType
from typing import Final

from rich.console import Console
from rich.text import Text

FONT_LINKS: Final = re.compile(r"@font-face \{.*?\}|<!--.*?-->|Fira Code, (?=monospace)", re.DOTALL)
"""Rich's links to a font, which are removed: each reader sees the browser's monospace font."""
GAP: Final = "    "


def draw(
    target: Path, command: str, output: str, *, columns: int = 1, styles: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Write the picture; `columns` sets long output side by side, `styles` colours lines that contain some words."""
    lines = beside(output.expandtabs().splitlines(), columns)
    width = max(len(line) for line in (*lines, f"$ {command}")) + 1
    with Path("/dev/null").open("w", encoding="utf-8") as nowhere:
        console = Console(record=True, width=width, file=nowhere, color_system=None, highlight=False)
        console.print(Text(f"$ {command}", style="bold green"))
        for line in lines:
            style = next((style for words, style in styles.items() if words in line), "")
            console.print(Text(line, style=style), no_wrap=True, crop=True)
        target.parent.mkdir(parents=True, exist_ok=True)
        picture = console.export_svg(title="", unique_id=target.stem)
        target.write_text(FONT_LINKS.sub("", picture), encoding="utf-8")


def beside(lines: list[str], columns: int) -> list[str]:
    """Set the lines in `columns` columns of equal length, read downwards."""
    height = -(-len(lines) // columns)
    parts = [lines[at : at + height] for at in range(0, len(lines), height)]
    widths = [max(map(len, part)) for part in parts]
    rows = zip_longest(*parts, fillvalue="")
    return [GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
