"""The figures of one run as a picture: each as a share of its goal, so that one line is the goal of all.

`python -m bench.operator.chart RESULT.json` writes the picture beside the result.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from bench.operator.load import WORKERS

NAME = "operator.svg"
LONGEST = 1.5
"""Bars end there, whatever their share."""
GOOD, BAD = "#2f7d4f", "#b5482f"


@dataclass(frozen=True, slots=True)
class Goal:
    """The bound that a figure has to reach."""

    key: str
    words: str
    bound: float
    unit: str = ""
    least: bool = False
    """Whether it has to be at least that; else at most."""

    def share(self, value: float) -> float:
        """Return the value as a share of the goal: above 1 is good where `least`, bad elsewhere."""
        return value / self.bound

    def reached(self, value: float) -> bool:
        """Tell whether the figure is on the right side of its goal."""
        return value >= self.bound if self.least else value <= self.bound

    def label(self) -> str:
        """Return the label: the figure and its goal."""
        return f"{self.words} ({'≥' if self.least else '≤'} {self.bound:g}{self.unit})"


GOALS = (
    Goal("create_ratio", "rate of creation / bare client", 0.8, least=True),
    Goal("cost_ratio", "the same by processor time", 0.8, least=True),
    Goal("requests_per_job", "requests until all pods exist", WORKERS + 4),
    Goal("requests_per_life", "requests from creation to success", WORKERS + 10),
    Goal("replacement_p95_seconds", "replacement of a failed pod, p95", 0.05, " s"),
    Goal("start_first_decision_seconds", "start beside all pods", 3, " s"),
    Goal("rss_mb_peak", "memory, most", 120, " MB"),
    Goal("idle_cpu_percent", "processor while idle", 2, " %"),
)
"""Ratios first: they mean the most on another machine."""


def measured(figures: dict[str, Any]) -> list[tuple[Goal, float]]:
    """Return the goals that this run has a figure for."""
    return [(goal, float(figures[goal.key])) for goal in GOALS if goal.key in figures]


def draw(result: Path) -> Path:
    """Write the picture beside a result, and return its path."""
    figures = json.loads(result.read_text())
    rows = measured(figures)
    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "dtj"})
    picture = Figure(figsize=(8, 0.6 + 0.36 * len(rows)), layout="constrained")
    axes = picture.add_subplot()
    for place, (goal, value) in enumerate(rows):
        length = min(LONGEST, goal.share(value))
        axes.barh(place, length, color=GOOD if goal.reached(value) else BAD, height=0.6)
        axes.text(length + 0.02, place, f"{value:g}{goal.unit}", va="center", fontsize=9)
    axes.axvline(1, color="black", linestyle=":")
    axes.set_yticks(range(len(rows)), [goal.label() for goal, _ in rows], fontsize=9)
    axes.set_xticks([0, 1], ["0", "goal"])
    axes.set_xlim(0, LONGEST + 0.25)
    axes.invert_yaxis()
    axes.spines[["top", "right"]].set_visible(False)
    busy = figures.get("others_cores")
    rest = "" if busy is None else f", {busy:g} of them busy with other work"
    picture.suptitle(
        f"{figures['jobs']} jobs, {figures['pods']} pods; {figures['machine']}{rest}; {figures['date'][:10]}",
        fontsize=9,
        x=0.01,
        ha="left",
    )
    target = result.with_name(NAME)
    picture.savefig(target, metadata={"Date": None})
    return target


if __name__ == "__main__":
    print(draw(Path(sys.argv[1])))
