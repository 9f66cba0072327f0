"""Small files that appear whole or not at all."""

import contextlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def write_whole(path: Path, text: str) -> None:
    """Replace `path` by `text`: written beside it, flushed to disk, renamed."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with beside.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    write_whole(path, json.dumps(value, indent=1, sort_keys=True) + "\n")


def read_json(path: Path) -> dict[str, Any] | None:
    """The object in a file; None where there is no file, or no object in it."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def flush(path: Path) -> None:
    """Bring a file or directory to disk; a file system that cannot do this for directories is let be."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
