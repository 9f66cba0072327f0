"""The progress of a training on the console: a bar on a terminal, lines in a log; only on the chief."""

import sys
import time
from collections.abc import Mapping

EVERY_SECONDS = 5.0
"""Time between two lines in a log."""
DRAW_SECONDS = 0.1
"""Time between two updates of the bar on a terminal."""
ONE_LINE_AN_EPOCH = 2
"""A value of Keras' `verbose`."""
BAR_WIDTH = 24
"""Characters of the bar."""
BEGINNING_OF_LINE = "\r\x1b[2K"
"""Back to the left, and the line empty (ECMA-48, EL)."""


class Console:
    """A bar on a terminal, a line every few seconds elsewhere, and a line at the end of each epoch.

    `verbose` as in Keras: 0 prints nothing, 2 a line an epoch alone.
    """

    def __init__(
        self, *, enabled: bool, total_steps: int | None, epochs: int | None, verbose: str | int = "auto"
    ) -> None:
        self._enabled = enabled and verbose != 0
        self._total_steps = total_steps
        self._epochs = epochs
        self._since = time.monotonic()
        self._examples = 0
        self._each_epoch_only = verbose == ONE_LINE_AN_EPOCH
        self._bar = self._enabled and not self._each_epoch_only and sys.stdout.isatty()
        self._rate = 0.0

    def steps_done(self, step: int, epoch: int, loss: float | None, examples: int) -> None:
        """Update the bar or print a line, if the last one is old enough; `examples` were read since the last call."""
        self._examples += examples
        passed = time.monotonic() - self._since
        metrics = {} if loss is None else {"loss": loss}
        if self._bar and passed >= DRAW_SECONDS:
            self._draw(self._line(step, epoch, metrics))
        elif not self._bar and not self._each_epoch_only and passed >= EVERY_SECONDS:
            self.print(self._line(step, epoch, metrics))

    def epoch_ended(self, step: int, epoch: int, metrics: Mapping[str, float]) -> None:
        """Print the line of an epoch."""
        self.print(self._line(step, epoch, metrics))

    def print(self, sentence: str) -> None:
        """Print a line, replacing the bar."""
        if self._enabled:
            print(f"{BEGINNING_OF_LINE if self._bar else ''}dtj: {sentence}", flush=True)  # noqa: T201 - for people

    def _draw(self, line: str) -> None:
        sys.stdout.write(f"{BEGINNING_OF_LINE}{line}")
        sys.stdout.flush()

    def _line(self, step: int, epoch: int, metrics: Mapping[str, float]) -> str:
        now = time.monotonic()
        rate = self._examples / max(1e-9, now - self._since)
        self._rate = 0.7 * self._rate + 0.3 * rate if self._rate and self._bar else rate
        self._since, self._examples = now, 0
        done = BAR_WIDTH * step // max(1, self._total_steps or step)
        bar = f"[{'=' * done:{BAR_WIDTH}}] " if self._bar else ""
        of = "" if self._total_steps is None else f"/{self._total_steps}"
        epochs = f"  epoch {epoch + 1}/{self._epochs}" if self._epochs else ""
        shown = "  ".join(f"{name} {value:.4g}" for name, value in metrics.items())
        return f"{bar}step {step}{of}{epochs}  {shown}  {self._rate:,.0f} examples/s"
