"""Draws the chart's Grafana dashboard in its layout, as an SVG, from what its queries give of a real Prometheus."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from html import escape
from itertools import cycle, islice
from pathlib import Path
from typing import Any, Final

History = list[tuple[dict[str, str], list[tuple[float, float]]]]
"""Series: labels, and (time, value)."""

WIDTH, ROW, GAP, LINE = 50, 26, 6, 12
"""Pixels of a column and of a row of Grafana's grid, between panels, and of a line of text."""
COLUMNS: Final = 24
LEGENDS: Final = 4
TABLE: Final = ("namespace", "name", "phase", "strategy")
COLOURS: Final = ("#1b6ca8", "#3a7d44", "#c0392b", "#8e5ea2", "#d68910", "#5d6d7e")
STYLE: Final = (
    "text{font:10px sans-serif;fill:#333}.t{font-weight:bold}.r{font-size:13px;font-weight:bold}"
    ".p{fill:#fff;stroke:#ddd}polyline{fill:none;stroke-width:1.3}.g{stroke:#ddd}"
)


@dataclass(frozen=True)
class Span:
    """The time that the panels show, in seconds."""

    began: float
    seconds: float


@dataclass(frozen=True)
class Box:
    """The place of a panel, in pixels."""

    left: int
    top: int
    width: int
    height: int

    def text(self, line: int, words: str, style: str = "", *, colour: str = "") -> str:
        """Return a line of text, from the top of the panel."""
        filled = f' style="fill:{colour}"' if colour else ""
        place = f'x="{self.left + 8}" y="{self.top + 16 + line * LINE}"'
        return f'<text class="{style}" {place}{filled}>{escape(words)}</text>'


def draw(target: Path, dashboard: Mapping[str, Any], history: Callable[[str], History]) -> None:
    """Write the picture; `history` returns what a query has given since the beginning."""
    panels = dashboard["panels"]
    found = {query["expr"]: history(query["expr"]) for panel in panels for query in panel.get("targets", ())}
    times = [at for series in found.values() for _, points in series for at, _ in points]
    span = Span(min(times), max(times) - min(times))
    parts = [part for panel in panels for part in _panel(panel, found, span)]
    size = f"{COLUMNS * WIDTH} {max(_box(panel).top + _box(panel).height for panel in panels) + GAP}"
    target.parent.mkdir(parents=True, exist_ok=True)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size}"><style>{STYLE}</style>'
    target.write_text("\n".join((head, *parts, "</svg>\n")), encoding="utf-8")


def legend(form: str, labels: Mapping[str, str]) -> str:
    """Return a legend in Grafana's form, as `{{namespace}}/{{name}}`, with the labels of a series."""
    return re.sub(r"\{\{(\w+)\}\}", lambda found: labels.get(found[1], ""), form)


def _box(panel: Mapping[str, Any]) -> Box:
    at = panel["gridPos"]
    size = (at["w"] * WIDTH - GAP, at["h"] * ROW - GAP)
    return Box(at["x"] * WIDTH, at["y"] * ROW, *size)


def _panel(panel: Mapping[str, Any], found: Mapping[str, History], span: Span) -> Iterator[str]:
    box = _box(panel)
    if panel["type"] == "row":
        yield box.text(0, panel["title"], "r")
        return
    yield f'<rect class="p" x="{box.left}" y="{box.top}" width="{box.width}" height="{box.height}"/>'
    yield box.text(0, panel["title"], "t")
    if panel["type"] == "table":
        rows = [labels for labels, _ in found[panel["targets"][0]["expr"]]]
        shown = (box.height - ROW) // LINE - 1
        for line, row in enumerate(({head: head for head in TABLE}, *rows[:shown]), 2):
            yield box.text(line, "   ".join(row.get(head, "") for head in TABLE), "" if line > 2 else "t")  # noqa: PLR2004
        return
    lines = [
        (legend(query["legendFormat"], labels), points)
        for query in panel["targets"]
        for labels, points in found[query["expr"]]
    ]
    yield from _plot(box, lines, span)


def _plot(box: Box, lines: list[tuple[str, list[tuple[float, float]]]], span: Span) -> Iterator[str]:
    """Yield lines from 0 to the highest value, and the legends of the highest of them."""
    highest = max((value for _, points in lines for _, value in points), default=0) or 1
    lines = sorted(lines, key=lambda line: -max(value for _, value in line[1]))
    left, right = box.left + 8, box.left + box.width - 8
    top, bottom = box.top + 22 + LEGENDS * LINE, box.top + box.height - 8
    yield f'<path class="g" d="M{left} {bottom}H{right}M{left} {top}H{right}"/>'
    yield f'<text x="{right}" y="{top - 3}" text-anchor="end">{highest:.4g}</text>'
    across, up = (right - left) / span.seconds, (bottom - top) / highest
    for (_, points), colour in zip(lines, cycle(COLOURS), strict=False):
        places = " ".join(f"{left + (at - span.began) * across:.0f},{bottom - value * up:.1f}" for at, value in points)
        yield f'<polyline stroke="{colour}" points="{places}"/>'
    for number, ((name, _), colour) in enumerate(islice(zip(lines, cycle(COLOURS), strict=False), LEGENDS), 1):
        yield box.text(number, name, colour=colour)
