"""A description of the machine that a measurement ran on."""

from __future__ import annotations

import os
import platform
import time
from pathlib import Path
from typing import Any


def machine() -> dict[str, Any]:
    """Return processor, kernel, Python version, and the present speed."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.partition(": ")[2] for line in lines if "model name" in line), platform.processor())
    return {
        "machine": f"{os.cpu_count()} cores, {model}",
        "kernel": platform.release(),
        "python": platform.python_version(),
        "speed_seconds": round(speed_seconds(), 3),
    }


def speed_seconds() -> float:
    """Return the processor time of two million additions in Python.

    0.11 s on the machine that most figures are from; up to three times as much where a virtual machine gets less of its
    processor.
    """
    began, total = time.process_time(), 0
    for number in range(2_000_000):
        total += number
    return time.process_time() - began
