"""Builds the cluster's programs beside the images: compiling needs the processor, images mostly the network."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import IO

from e2e.cluster import images, paths
from e2e.cluster.images import Images
from e2e.cluster.progress import print_line


def build_images_beside(*programs: str) -> Images:
    """Build both images; the named programs are built at the same time."""
    with building_programs(*programs):
        return images.built()


def building_programs(*names: str) -> AbstractContextManager[None]:
    """Build the named programs while the block runs; errors are reported when a program is used next."""
    return running_beside([sys.executable, "-m", "e2e.cluster", "build", *names])


@contextmanager
def running_beside(command: Sequence[str]) -> Iterator[None]:
    """Run a command while the block runs, print its output, and wait for it after the block.

    An error in the block ends the command and all that it started.
    """
    with subprocess.Popen(
        command, cwd=paths.CHECKOUT, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        relay = threading.Thread(target=_relay, args=(process.stderr,), daemon=True)
        relay.start()
        try:
            yield
            process.wait()
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
            relay.join()


def _relay(lines: IO[str] | None) -> None:
    assert lines is not None
    for line in lines:
        print_line(line.rstrip())
