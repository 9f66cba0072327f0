"""A small synchronous client of the API server, for starting a cluster.

Standard library and PyYAML only: importing a full client takes longer than starting etcd.
"""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from e2e.cluster.interface import ClusterError

FIELD_MANAGER = "dtj-cluster"


class ApiError(ClusterError):
    """The API server answered with an error; `code` is the HTTP status."""

    def __init__(self, code: int, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code


class Api:
    """A client with one kubeconfig's credentials; every call is one request on a new connection."""

    def __init__(self, kubeconfig: Path) -> None:
        config = yaml.safe_load(kubeconfig.read_text())
        context = _named(config["contexts"], config["current-context"])["context"]
        cluster = _named(config["clusters"], context["cluster"])["cluster"]
        user = _named(config["users"], context["user"])["user"]
        self.server: str = cluster["server"]
        self._token: str = user.get("token", "")
        self._tls = ssl.create_default_context()
        if "certificate-authority-data" in cluster:
            authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
            self._tls = ssl.create_default_context(cadata=authority)
        if "client-certificate-data" in user:
            with tempfile.NamedTemporaryFile() as pair:
                for part in ("client-certificate-data", "client-key-data"):
                    pair.write(base64.b64decode(user[part]) + b"\n")
                pair.flush()
                self._tls.load_cert_chain(pair.name)

    def get(self, path: str) -> Any:
        """Send a GET and return parsed JSON."""
        return json.loads(self._request("GET", path))

    def create(self, path: str, body: dict[str, Any]) -> Any:
        """Create an object and return it; one that exists already is left as it is."""
        try:
            return json.loads(self._request("POST", path, body))
        except ApiError as error:
            if error.code == http.client.CONFLICT and "already exists" in str(error):
                return body
            raise

    def patch(self, path: str, body: dict[str, Any]) -> Any:
        """Send a merge patch and return the changed object."""
        return json.loads(self._request("PATCH", path, body, "application/merge-patch+json"))

    def delete(self, path: str) -> None:
        """Delete an object, if it exists."""
        try:
            self._request("DELETE", path)
        except ApiError as error:
            if error.code != http.client.NOT_FOUND:
                raise

    def ready(self) -> bool:
        """Tell whether every readiness check of the API server passes."""
        try:
            return self._request("GET", "/readyz") == b"ok"
        except (OSError, http.client.HTTPException, ApiError):
            return False

    def _connect(self) -> http.client.HTTPConnection:
        place = urlsplit(self.server)
        if place.scheme == "http":
            return http.client.HTTPConnection(str(place.hostname), place.port, timeout=30)
        return http.client.HTTPSConnection(str(place.hostname), place.port or 443, context=self._tls, timeout=30)

    def _request(self, method: str, path: str, body: Any = None, content: str = "application/json") -> bytes:
        connection = self._connect()
        headers = {"Content-Type": content, "User-Agent": FIELD_MANAGER}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        try:
            connection.request(method, path, json.dumps(body) if body is not None else None, headers)
            response = connection.getresponse()
            answer = response.read()
        finally:
            connection.close()
        if response.status >= http.client.BAD_REQUEST:
            raise ApiError(response.status, f"The API server refused {method} {path}: {_words(answer)}")
        return answer


def wait_until(condition: Callable[[], bool], limit: float, failure: Callable[[], str], pause: float = 0.05) -> None:
    """Poll `condition` until it holds; ClusterError(failure()) after `limit` seconds."""
    deadline = time.monotonic() + limit
    while not condition():
        if time.monotonic() > deadline:
            raise ClusterError(failure())
        time.sleep(pause)


def _words(answer: bytes) -> str:
    try:
        return str(json.loads(answer).get("message", answer.decode()))
    except ValueError:
        return answer.decode(errors="replace")


def _named(entries: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(entry for entry in entries if entry["name"] == name)
