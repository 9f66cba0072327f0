"""Programs that import as a zygote does."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

PROGRAMS = Path(__file__).parent / "programs"


def told(program: str, *arguments: str) -> Any:
    """The JSON that a program of ours prints, run by itself in a Python of its own."""
    command = [sys.executable, str(PROGRAMS / program), *arguments]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
