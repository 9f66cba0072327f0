"""Runs runc on a machine whose root lacks CAP_SYS_RESOURCE.

docker asks for all capabilities for a privileged container and for each command in it, and for a lower OOM score of
some containers; the kernel refuses both to such a root. This program removes them from what docker asks for, and then
becomes runc. Standard library only; run as `oci_runtime.py RUNC [argument of runc ...]`.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

REFUSED = "CAP_SYS_RESOURCE"


def specification(arguments: list[str]) -> Path | None:
    """Return the file that says what to run; None for a command of runc that starts nothing."""
    if "create" in arguments or "run" in arguments:
        return Path(option(arguments, "--bundle", "-b") or ".") / "config.json"
    process = option(arguments, "--process", "-p") if "exec" in arguments else None
    return Path(process) if process else None


def option(arguments: list[str], *names: str) -> str | None:
    """Return the value of an option that is given as `--name value` or `--name=value`."""
    for argument, following in zip(arguments, [*arguments[1:], ""], strict=True):
        if argument in names:
            return following
        name, equals, value = argument.partition("=")
        if equals and name in names:
            return value
    return None


def permitted(content: dict[str, Any]) -> dict[str, Any]:
    """Return a container's or process's specification without what the kernel would refuse."""
    process = content.get("process", content)
    for kind, names in (process.get("capabilities") or {}).items():
        process["capabilities"][kind] = [name for name in names if name != REFUSED]
    if (process.get("oomScoreAdj") or 0) < 0:
        del process["oomScoreAdj"]
    return content


def main(runc: str, arguments: list[str]) -> None:
    """Rewrite the specification, then execute runc."""
    if file := specification(arguments):
        file.write_text(json.dumps(permitted(json.loads(file.read_text()))))
    os.execv(runc, [runc, *arguments])  # noqa: S606


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
