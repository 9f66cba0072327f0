"""Imports TensorFlow once and forks each program of a test: `python forks.py`, one JSON order a line on stdin.

An order: {"program": path, "arguments": [...], "environment": {...}, "directory": path, "output": path}. The exit code
is written to <output>.code when the program has ended; its pid is the line that is answered.
"""

import json
import os
import runpy
import sys
from pathlib import Path
from typing import Any

from dtj_trainer.preload.imports import preload


def main() -> None:
    preload()
    for line in sys.stdin:
        order = json.loads(line)
        reading, writing = os.pipe()
        if os.fork() == 0:
            _watch(order, writing)
        os.close(writing)
        with os.fdopen(reading) as answered:
            sys.stdout.write(answered.readline())
        sys.stdout.flush()
        os.wait()


def _watch(order: dict[str, Any], writing: int) -> None:
    """Fork once more, so that the one process can wait for the other and nobody else has to."""
    if os.fork() != 0:
        os._exit(0)
    pid = os.fork()
    if pid == 0:
        _run(order)
    os.write(writing, f"{pid}\n".encode())
    os.close(writing)
    _, status = os.waitpid(pid, 0)
    code = Path(order["output"] + ".code")
    beside = code.with_suffix(".writing")
    beside.write_text(str(os.waitstatus_to_exitcode(status)))
    beside.replace(code)
    os._exit(0)


def _run(order: dict[str, Any]) -> None:
    output = os.open(order["output"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(output, stream)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for name in [name for name in os.environ if name.startswith(("DTJ_", "TEST_")) or name == "TF_CONFIG"]:
        del os.environ[name]
    os.environ.update(order["environment"])
    os.chdir(order["directory"])
    sys.argv = [order["program"], *order["arguments"]]
    sys.path.insert(0, str(Path(order["program"]).parent))
    code = 0
    try:
        runpy.run_path(order["program"], run_name="__main__")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            sys.stderr.write(f"{end.code}\n")
    except BaseException:  # noqa: BLE001 - as the interpreter does
        sys.excepthook(*sys.exc_info())
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
