"""The console line: what a person wants to see while it trains, on the chief alone."""

import sys
import time
from collections.abc import Mapping

EVERY_SECONDS = 5.0
"""Between two lines in a log."""
DRAW_SECONDS = 0.1
"""Between two drawings of the bar on a terminal."""
BAR = 24
"""Characters of the bar."""
BEGINNING_OF_LINE = "\r\x1b[2K"
"""Back to the left, and the line empty (ECMA-48, EL)."""


class Console:
    """A bar on a terminal, a line every few seconds elsewhere, and a line at each epoch's end; silent on every process
    but the chief.
    """

    def __init__(self, *, speaks: bool, total: int, epochs: int | None) -> None:
        self._speaks = speaks
        self._total = total
        self._epochs = epochs
        self._since = time.monotonic()
        self._examples = 0
        self._bar = speaks and sys.stdout.isatty()
        self._rate = 0.0

    def step(self, step: int, epoch: int, loss: float | None, examples: int) -> None:
        self._examples += examples
        passed = time.monotonic() - self._since
        metrics = {} if loss is None else {"loss": loss}
        if self._bar and passed >= DRAW_SECONDS:
            self._draw(self._line(step, epoch, metrics))
        elif not self._bar and passed >= EVERY_SECONDS:
            self.say(self._line(step, epoch, metrics))

    def epoch(self, step: int, epoch: int, metrics: Mapping[str, float]) -> None:
        self.say(self._line(step, epoch, metrics))

    def say(self, sentence: str) -> None:
        if self._speaks:
            print(f"{BEGINNING_OF_LINE if self._bar else ''}dtj: {sentence}", flush=True)  # noqa: T201 - for people

    def _draw(self, line: str) -> None:
        sys.stdout.write(f"{BEGINNING_OF_LINE}{line}")
        sys.stdout.flush()

    def _line(self, step: int, epoch: int, metrics: Mapping[str, float]) -> str:
        now = time.monotonic()
        rate = self._examples / max(1e-9, now - self._since)
        self._rate = 0.7 * self._rate + 0.3 * rate if self._rate and self._bar else rate
        self._since, self._examples = now, 0
        done = BAR * step // max(1, self._total)
        bar = f"[{'=' * done:{BAR}}] " if self._bar else ""
        passes = f"  epoch {epoch + 1}/{self._epochs}" if self._epochs else ""
        shown = "  ".join(f"{name} {value:.4g}" for name, value in metrics.items())
        return f"{bar}step {step}/{self._total}{passes}  {shown}  {self._rate:,.0f} examples/s"
