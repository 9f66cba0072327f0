"""`make bench`: every measurement, one after the other."""

from __future__ import annotations

import subprocess
import sys

PROGRAMS = ("bench.operator", "bench.trainer", "bench.pod_recovery")


def main() -> int:
    """Run all; returns the number of programs that failed."""
    return sum(subprocess.run([sys.executable, "-m", program], check=False).returncode != 0 for program in PROGRAMS)


if __name__ == "__main__":
    sys.exit(main())
