"""Formats the tree and applies the linter's safe corrections (`make fmt`)."""

from __future__ import annotations

import subprocess
import sys


def main() -> int:
    fixed = subprocess.run([sys.executable, "-m", "ruff", "check", "--fix-only", "--quiet", "."], check=False)
    formatted = subprocess.run([sys.executable, "-m", "ruff", "format", "."], check=False)
    return fixed.returncode or formatted.returncode


if __name__ == "__main__":
    sys.exit(main())
