"""What a person sees while the job runs: a live table on a terminal, plain lines elsewhere."""

import time
from types import TracebackType
from typing import Any, Protocol, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from e2e.job_monitor import Sample, Watcher, World

PLAIN_SECONDS = 3.0
COLOURS = {"train": "green", "Running": "green", "Succeeded": "green", "Failed": "red"}


class Screen(Protocol):
    """Shows the watched job; `tell` adds a line that stays."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    def show(self) -> None: ...
    def tell(self, line: str) -> None: ...


def screen(console: Console, watcher: Watcher, total_steps: int) -> Screen:
    return (LiveTable if console.is_terminal else PlainLines)(console, watcher, total_steps)


class LiveTable:
    """One row a worker, redrawn ten times a second, and a bar with the time that is left."""

    def __init__(self, console: Console, watcher: Watcher, total_steps: int) -> None:
        self._console = console
        self._watcher = watcher
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
        world = self._watcher.world
        table = Table(box=None, padding=(0, 2), pad_edge=True)
        for title, side in COLUMNS:
            table.add_column(title, justify="right" if side == "right" else "left", style="" if title else "bold")
        latest = [self._watcher.latest(pod["metadata"]["name"]) for pod in world.pods]
        for pod, sample in zip(world.pods, latest, strict=True):
            cells = row(pod, sample)
            table.add_row(*cells[:2], Text(cells[2], style=COLOURS.get(cells[2], "yellow")), *cells[3:])
        step = max((sample.step or 0 for sample in latest if sample), default=0)
        return Group(table, self._bar(world, step, rate(latest)))

    def _bar(self, world: World, step: int, steps_per_second: float) -> RenderableType:
        line = Table.grid(padding=(0, 2))
        phase = world.phase or "Pending"
        line.add_row(
            Text(f"  {world.job.get('metadata', {}).get('name', '')}", style="bold"),
            Text(phase, style=COLOURS.get(phase, "yellow")),
            ProgressBar(total=self._total, completed=step, width=36),
            f"{step}/{self._total}",
            Text(left(self._total - step, steps_per_second), style="dim"),
        )
        return line


class PlainLines:
    """A line every few seconds, for logs and pipes."""

    def __init__(self, console: Console, watcher: Watcher, total_steps: int) -> None:
        self._console = console
        self._watcher = watcher
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
        world = self._watcher.world
        latest = [self._watcher.latest(pod["metadata"]["name"]) for pod in world.pods]
        cells = [row(pod, sample) for pod, sample in zip(world.pods, latest, strict=True)]
        workers = "  ".join(
            f"{name}@{node} {phase} step {step} loss {loss}" for name, node, phase, step, loss, *_ in cells
        )
        step = max((sample.step or 0 for sample in latest if sample), default=0)
        ahead = left(self._total - step, rate(latest))
        self.tell(f"{world.phase or 'Pending':<10} {step:>5}/{self._total}  {workers}  {ahead}".rstrip())


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
    """The cells of COLUMNS for one worker; a pod whose trainer says nothing shows the pod's own phase."""
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
    """Steps per second of the job: its slowest worker's."""
    return min((sample.steps_per_second for sample in latest if sample and sample.steps_per_second), default=0.0)


def left(steps: int, steps_per_second: float) -> str:
    return f"{steps / steps_per_second:.0f} s left" if steps > 0 and steps_per_second > 0 else ""
