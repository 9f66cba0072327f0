"""The command `dtj`."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command; without the packages of the extra `client`, say so in a sentence."""
    try:
        from dtj.cli.app import app  # noqa: PLC0415 - `import dtj` and the trainer's image do without these packages
    except ModuleNotFoundError as problem:
        if (problem.name or "").partition(".")[0] not in {"rich", "typer", "yaml"}:
            raise
        sys.exit(
            f"dtj: the package {problem.name} is missing: install what the command needs with "
            "`pip install 'dtj-training[client]'`, or `pip install '.[client]'` in a checkout."
        )
    app(prog_name="dtj")
