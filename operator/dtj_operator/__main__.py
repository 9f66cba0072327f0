"""`python -m dtj_operator`."""

from __future__ import annotations

import sys

from dtj_operator.app.cli import main as command


def main() -> None:
    """Entry point of `dtj-operator`."""
    sys.exit(command())


if __name__ == "__main__":
    main()
