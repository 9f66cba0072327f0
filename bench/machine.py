"""Where it was measured."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any


def machine() -> dict[str, Any]:
    """Processor, kernel and Python."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.partition(": ")[2] for line in lines if "model name" in line), platform.processor())
    return {
        "machine": f"{os.cpu_count()} cores, {model}",
        "kernel": platform.release(),
        "python": platform.python_version(),
    }
