"""Building the cluster's programs beside the images: compiling keeps the processor busy, images mostly the network."""

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
from e2e.cluster.progress import tell


def images_and(*programs: str) -> Images:
    """Both images; the named programs are built meanwhile."""
    with building(*programs):
        return images.built()


def building(*names: str) -> AbstractContextManager[None]:
    """Build the named programs beside the body. What goes wrong is told by whoever asks for a program next."""
    return beside([sys.executable, "-m", "e2e.cluster", "build", *names])


@contextmanager
def beside(command: Sequence[str]) -> Iterator[None]:
    """Run a command beside the body, tell what it says, and wait for it after the body.

    An error of the body ends the command and all that it started.
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
        tell(line.rstrip())
