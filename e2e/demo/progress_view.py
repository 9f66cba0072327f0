"""Shows the job's progress: a live table on a terminal, plain lines elsewhere."""

import time
from types import TracebackType
from typing import Any, Protocol, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from e2e.job_monitor import JobMonitor, JobState, Sample

PLAIN_SECONDS = 3.0
COLOURS = {"train": "green", "Running": "green", "Succeeded": "green", "Failed": "red"}


class ProgressView(Protocol):
    """A view of the monitored job; `tell` prints a line that stays."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    def show(self) -> None: ...
    def tell(self, line: str) -> None: ...


def view(console: Console, monitor: JobMonitor, total_steps: int) -> ProgressView:
    return (LiveTable if console.is_terminal else PlainLines)(console, monitor, total_steps)


class LiveTable:
    """A table with one row for each worker, redrawn ten times a second, and a bar with the time left."""

    def __init__(self, console: Console, monitor: JobMonitor, total_steps: int) -> None:
        self._console = console
        self._monitor = monitor
        self._total = total_steps
        self._live = Live(console=console, auto_refresh=False, transient=False)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.show()
        self._live.stop()

    def show(self) -> None:
        self._live.update(self._picture(), refresh=True)

    def tell(self, line: str) -> None:
        self._live.console.print(f"  {line}", markup=False)

    def _picture(self) -> RenderableType:
        state = self._monitor.state
        table = Table(box=None, padding=(0, 2), pad_edge=True)
        for title, side in COLUMNS:
            table.add_column(title, justify="right" if side == "right" else "left", style="" if title else "bold")
        latest = [self._monitor.latest(pod["metadata"]["name"]) for pod in state.pods]
        for pod, sample in zip(state.pods, latest, strict=True):
            cells = row(pod, sample)
            table.add_row(*cells[:2], Text(cells[2], style=COLOURS.get(cells[2], "yellow")), *cells[3:])
        step = max((sample.step or 0 for sample in latest if sample), default=0)
        return Group(table, self._bar(state, step, rate(latest)))

    def _bar(self, state: JobState, step: int, steps_per_second: float) -> RenderableType:
        line = Table.grid(padding=(0, 2))
        phase = state.phase or "Pending"
        line.add_row(
            Text(f"  {state.job.get('metadata', {}).get('name', '')}", style="bold"),
            Text(phase, style=COLOURS.get(phase, "yellow")),
            ProgressBar(total=self._total, completed=step, width=36),
            f"{step}/{self._total}",
            Text(left(self._total - step, steps_per_second), style="dim"),
        )
        return line


class PlainLines:
    """A line every few seconds, for logs and pipes."""

    def __init__(self, console: Console, monitor: JobMonitor, total_steps: int) -> None:
        self._console = console
        self._monitor = monitor
        self._total = total_steps
        self._last = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._line()

    def show(self) -> None:
        if time.monotonic() - self._last >= PLAIN_SECONDS:
            self._line()

    def tell(self, line: str) -> None:
        self._console.print(f"  {line}", markup=False, soft_wrap=True)

    def _line(self) -> None:
        self._last = time.monotonic()
        state = self._monitor.state
        latest = [self._monitor.latest(pod["metadata"]["name"]) for pod in state.pods]
        cells = [row(pod, sample) for pod, sample in zip(state.pods, latest, strict=True)]
        workers = "  ".join(
            f"{name}@{node} {phase} step {step} loss {loss}" for name, node, phase, step, loss, *_ in cells
        )
        step = max((sample.step or 0 for sample in latest if sample), default=0)
        ahead = left(self._total - step, rate(latest))
        self.tell(f"{state.phase or 'Pending':<10} {step:>5}/{self._total}  {workers}  {ahead}".rstrip())


COLUMNS = (
    ("pod", "left"),
    ("node", "left"),
    ("phase", "left"),
    ("step", "right"),
    ("loss", "right"),
    ("steps/s", "right"),
    ("restarts", "right"),
)


def row(pod: dict[str, Any], sample: Sample | None) -> tuple[str, ...]:
    """Return the cells of COLUMNS for one worker; a pod whose trainer does not answer shows the pod's own phase."""
    spec, status = pod["spec"], pod["status"]
    ended = status.get("phase") in {"Succeeded", "Failed"}
    mine = sample if sample is not None and sample.uid == pod["metadata"]["uid"] else None
    phase = str(status.get("phase", "")) if ended or mine is None else mine.phase or "starting"
    return (
        pod["metadata"]["name"],
        spec.get("nodeName", "-"),
        phase,
        number(mine.step if mine else None, "{:.0f}"),
        number(mine.loss if mine else None, "{:.4f}"),
        number(mine.steps_per_second if mine and not ended else None, "{:.0f}"),
        number(mine.restarts if mine else None, "{:.0f}"),
    )


def number(value: float | None, form: str) -> str:
    return "-" if value is None else form.format(value)


def rate(latest: list[Sample | None]) -> float:
    """Return the job's steps per second: its slowest worker's."""
    return min((sample.steps_per_second for sample in latest if sample and sample.steps_per_second), default=0.0)


def left(steps: int, steps_per_second: float) -> str:
    return f"{steps / steps_per_second:.0f} s left" if steps > 0 and steps_per_second > 0 else ""
