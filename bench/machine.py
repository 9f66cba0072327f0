"""Where it was measured."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def machine() -> dict[str, Any]:
    """Processor, kernel, Python, and how fast it is now."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.partition(": ")[2] for line in lines if "model name" in line), platform.processor())
    return {
        "machine": f"{os.cpu_count()} cores, {model}",
        "kernel": platform.release(),
        "python": platform.python_version(),
        "speed_seconds": round(speed_seconds(), 3),
    }


def speed_seconds() -> float:
    """Processor time of two million additions in Python: 0.11 s on the machine that most figures are from, on a good
    day, and up to three times as much where a virtual machine gets less of its processor.
    """
    began, total = time.process_time(), 0
    for number in range(2_000_000):
        total += number
    return time.process_time() - began


def stolen_percent() -> Callable[[], float]:
    """From now until the answer is called: of the processor time wanted here, what this machine's host gave to others
    (`steal` in /proc/stat).
    """
    before = _stolen_and_wanted()

    def until_now() -> float:
        stolen, wanted = (now - then for now, then in zip(_stolen_and_wanted(), before, strict=True))
        return 100 * stolen / max(1, wanted)

    return until_now


def _stolen_and_wanted() -> tuple[int, int]:
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, Path("/proc/stat").read_text().split()[1:9])
    return steal, user + nice + system + irq + softirq + steal
