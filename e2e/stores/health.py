"""Waits until a store that was started on loopback answers."""

from __future__ import annotations

import urllib.request

from e2e.cluster import machine
from e2e.cluster.machine import Machine
from e2e.cluster.wait import wait_until

READY_LIMIT = 30.0


def wait_healthy(host: Machine, program: str, page: str, name: str) -> None:
    """Wait until `page` (host, port and path) answers; raises with the last log line if the program ends or is late."""

    def ready() -> bool:
        host.require_running()
        try:
            with urllib.request.urlopen(f"http://{page}", timeout=5):
                return True
        except OSError:
            return False

    log = host.log(program)
    wait_until(ready, READY_LIMIT, lambda: f"{name} is not ready: {machine.last_log_line(log)}")
