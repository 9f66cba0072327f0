"""A client of the trainer pods' HTTP server: /status and /metrics on port 9401.

A pod on this machine is asked inside its own network namespace, which takes a fraction of a millisecond and works
while the pod is disconnected; any other through the API server's proxy.
"""

import contextlib
import http.client
import json
from typing import Any

from e2e.cluster.api_client import ApiClient, ApiError, ApiUnavailable, core_path
from e2e.containers import Process, processes, socket_inside

PORT = 9401
TIMEOUT_SECONDS = 0.5


class Trainer:
    """One trainer pod, by name and UID."""

    def __init__(self, api: ApiClient, namespace: str, name: str, uid: str) -> None:
        self.name = name
        self.uid = uid
        self._api = api
        self._proxy = core_path(namespace, "pods", f"{name}:{PORT}") + "/proxy"
        self._inside: Process | None = None
        self._here = False
        """Whether it once was found on this machine: the proxy waits half a minute for a pod that is gone."""

    def status(self) -> dict[str, Any] | None:
        """Return the present /status, or None where nothing answers."""
        answer = self.get("/status")
        if answer is None:
            return None
        try:
            status: dict[str, Any] = json.loads(answer)
        except ValueError:
            return None
        return status

    def get(self, path: str) -> bytes | None:
        """Return the body of an HTTP 200, or None."""
        if self._inside is None:
            self._inside = next(iter(processes(self.uid)), None)
        if self._inside is None:
            return None if self._here else self._by_proxy(path)
        self._here = True
        return self._directly(self._inside, path)

    def _directly(self, inside: Process, path: str) -> bytes | None:
        connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=TIMEOUT_SECONDS)
        try:
            connection.sock = socket_inside(inside)
            connection.sock.settimeout(TIMEOUT_SECONDS)
            connection.sock.connect(("127.0.0.1", PORT))
            connection.request("GET", path, headers={"Connection": "close"})
            response = connection.getresponse()
            body = response.read()
        except FileNotFoundError:  # that process is gone: look for another one next time
            self._inside = None
            return None
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()
        return body if response.status == http.client.OK else None

    def _by_proxy(self, path: str) -> bytes | None:
        with contextlib.suppress(ApiError, ApiUnavailable):
            return self._api.text(self._proxy + path).encode()
        return None
