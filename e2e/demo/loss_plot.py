"""Plots the loss curve and the kill, as a PNG."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from e2e.job_monitor import Sample
from e2e.recovery import Recovery

mpl.use("Agg")

LOSS, STEP, KILL = "#1b6ca8", "#3a7d44", "#c0392b"


def draw(
    target: Path, samples: Sequence[Sample], killed_at: float | None, back: Recovery | None, accuracy: float | None
) -> None:
    """Plot loss and step over time, as the first worker reported them; the kill is a line in both."""
    points = [sample for sample in samples if sample.step is not None and sample.loss is not None]
    points = [sample for sample in points if sample.pod == points[0].pod]
    if not points:
        return
    began = points[0].at
    seconds = [sample.at - began for sample in points]
    figure = Figure(figsize=(8, 5), dpi=120, layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[3, 2])
    above.plot(seconds, [sample.loss for sample in points], color=LOSS, linewidth=1.3)
    above.set_yscale("log")
    above.set_ylabel("training loss")
    below.plot(seconds, [sample.step for sample in points], color=STEP, linewidth=1.3)
    below.set_ylabel("step")
    below.set_xlabel("seconds since the first report")
    title = f"{points[-1].step} steps"
    above.set_title(title if accuracy is None else f"{title}, test accuracy {accuracy:.3f}", loc="left", fontsize=10)
    for axes in (above, below):
        axes.grid(visible=True, alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
        if killed_at is not None:
            axes.axvline(killed_at - began, color=KILL, linewidth=1.2, linestyle="--")
            if back is not None:
                axes.axvspan(killed_at - began, killed_at - began + back.all_train, color=KILL, alpha=0.12)
    if killed_at is not None:
        words = "kill -9" if back is None else f"kill -9 of a worker, all train again after {back.all_train:.2f} s"
        above.annotate(
            words, (killed_at - began, 0.97), (6, 0), xycoords=("data", "axes fraction"), textcoords="offset points",
            color=KILL, fontsize=9, va="top",
        )  # fmt: skip
    target.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(target)
