"""Progress output while a cluster is built: one line for each phase, with its seconds."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn

console = Console(stderr=True, highlight=False)


class Phase:
    """The running phase; `advance` and `total` turn its spinner into a bar."""

    def __init__(self, progress: Progress, title: str) -> None:
        self._progress = progress
        self._task = progress.add_task(title, total=None)

    def total(self, count: int) -> None:
        self._progress.update(self._task, total=count)

    def advance(self, steps: int = 1) -> None:
        self._progress.advance(self._task, steps)

    def at(self, done: int) -> None:
        self._progress.update(self._task, completed=done)

    def say(self, title: str) -> None:
        self._progress.update(self._task, description=title)


@contextmanager
def phase(title: str) -> Iterator[Phase]:
    """Show `title` while the block runs, then print a line with the seconds it took."""
    began = time.monotonic()
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        yield Phase(progress, title)
    console.print(f"  [green]✓[/green] {title} [dim]{time.monotonic() - began:.1f} s[/dim]")


def print_line(sentence: str) -> None:
    """Print one plain line."""
    console.print(sentence, markup=False, soft_wrap=True)
