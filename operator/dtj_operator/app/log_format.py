"""Log lines: a constant message and key=value, or one JSON object each."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any

ORDINARY = frozenset(logging.LogRecord("", 0, "", 0, "", (), None).__dict__) | {"message", "asctime", "taskName"}
"""Attributes that every record has; all others are facts of that line."""
QUIET = {
    "kopf": logging.WARNING,
    "kopf.activities.startup": logging.CRITICAL,  # the error that ends the operator is its last line
    "aiohttp": logging.WARNING,
    "asyncio": logging.WARNING,
}


def _facts(record: logging.LogRecord) -> dict[str, Any]:
    return {name: value for name, value in record.__dict__.items() if name not in ORDINARY}


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Text(logging.Formatter):
    """A formatter for people."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line, and the traceback if there is one."""
        facts = "".join(f" {name}={_quoted(value)}" for name, value in _facts(record).items())
        line = f"{_time(record)} {record.levelname.lower():7} {record.getMessage()}{facts}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class Json(logging.Formatter):
    """A formatter for machines."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one JSON object on one line."""
        entry = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_facts(record),
        }
        if record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)
        return json.dumps(entry, default=str)


def _quoted(value: object) -> str:
    text = str(value)
    return json.dumps(text) if any(letter in text for letter in ' "=\n') or not text else text


def set_up(style: str, level: str) -> None:
    """Log to stderr from now on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Json() if style == "json" else Text())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name, least in QUIET.items():
        logging.getLogger(name).setLevel(max(least, root.level))
