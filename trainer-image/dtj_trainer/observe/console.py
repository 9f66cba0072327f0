"""The console line: what a person wants to see while it trains, on the chief alone."""

import time
from collections.abc import Mapping

EVERY_SECONDS = 5.0


class Console:
    """Prints a line every few seconds and at each epoch's end; silent on every process but the chief."""

    def __init__(self, *, speaks: bool, total: int, epochs: int | None) -> None:
        self._speaks = speaks
        self._total = total
        self._epochs = epochs
        self._since = time.monotonic()
        self._examples = 0

    def step(self, step: int, epoch: int, loss: float | None, examples: int) -> None:
        self._examples += examples
        if time.monotonic() - self._since >= EVERY_SECONDS:
            self._print(step, epoch, {} if loss is None else {"loss": loss})

    def epoch(self, step: int, epoch: int, metrics: Mapping[str, float]) -> None:
        self._print(step, epoch, metrics)

    def say(self, sentence: str) -> None:
        if self._speaks:
            print(f"dtj: {sentence}", flush=True)  # noqa: T201 - the console line is for people

    def _print(self, step: int, epoch: int, metrics: Mapping[str, float]) -> None:
        now = time.monotonic()
        rate = self._examples / max(1e-9, now - self._since)
        self._since, self._examples = now, 0
        passes = f"  epoch {epoch + 1}/{self._epochs}" if self._epochs else ""
        shown = "  ".join(f"{name} {value:.4g}" for name, value in metrics.items())
        self.say(f"step {step}/{self._total}{passes}  {shown}  {rate:,.0f} examples/s")
