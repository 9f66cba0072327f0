"""A synchronous client of the API server: plain dicts, any kubeconfig.

The kubernetes client is imported only for kubeconfigs that need it: importing it takes longer than starting etcd.
"""

from __future__ import annotations

import base64
import http
import json
import ssl
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import urllib3
import yaml

from e2e.cluster.interface import ClusterError

USER_AGENT = "dtj-cluster"
FIELD_MANAGER = "dtj-e2e"
TIMEOUT = urllib3.Timeout(connect=5, read=30)
JSON = "application/json"
OWN_CLUSTER = {"server", "certificate-authority-data"}
OWN_USER = {"token", "client-certificate-data", "client-key-data"}
"""The keys of a kubeconfig that are read here; with others (files, plugins) the kubernetes client reads it."""


class ApiError(ClusterError):
    """The API server refused a request; `code` is the HTTP status and `message` its own sentence."""

    def __init__(self, code: int, message: str, request: str) -> None:
        super().__init__(f"The API server refused {request}: {message}")
        self.code = code
        self.message = message


class ApiUnavailable(ClusterError):  # noqa: N818 - the server's state, not a fault
    """The API server does not answer."""


class ApiClient:
    """A connection pool to one API server with one kubeconfig's credentials; safe to use from several threads."""

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig
        self._access = _read(kubeconfig)
        self._pool = urllib3.PoolManager(maxsize=8, block=False, retries=False, ssl_context=self._access.tls)

    @property
    def server(self) -> str:
        """Return the server's URL."""
        return self._access.server

    def get(self, path: str, **query: str) -> dict[str, Any]:
        """Send a GET."""
        return self._call("GET", path, query=query)

    def items(self, path: str, **query: str) -> list[dict[str, Any]]:
        """Return the items of a list."""
        found: list[dict[str, Any]] = self.get(path, **query)["items"]
        return found

    def find(self, path: str) -> dict[str, Any] | None:
        """Return the object, or None where there is none."""
        try:
            return self.get(path)
        except ApiError as error:
            if error.code == http.HTTPStatus.NOT_FOUND:
                return None
            raise

    def text(self, path: str) -> str:
        """Return a body that is not JSON: the log of a container, a page of metrics."""
        return self._send("GET", path, accept="*/*").decode(errors="replace")

    def post(self, path: str, body: Mapping[str, Any], **query: str) -> dict[str, Any]:
        """Create an object and return it."""
        return self._call("POST", path, body=body, query=query)

    def create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Create an object and return it; one that exists already is left as it is."""
        try:
            return self.post(path, body)
        except ApiError as error:
            if error.code == http.HTTPStatus.CONFLICT and "already exists" in error.message:
                return body
            raise

    def patch(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Send a JSON merge patch and return the changed object."""
        return self._call("PATCH", path, body=body, content_type="application/merge-patch+json")

    def apply(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Create the object or update it to `body`, by server-side apply."""
        query = {"fieldManager": FIELD_MANAGER, "force": "true"}
        return self._call("PATCH", path, body=body, query=query, content_type="application/apply-patch+yaml")

    def delete(self, path: str, **query: str) -> None:
        """Delete one object, if it exists."""
        try:
            self._call("DELETE", path, query=query)
        except ApiError as error:
            if error.code != http.HTTPStatus.NOT_FOUND:
                raise

    def ready(self) -> bool:
        """Tell whether every readiness check of the API server passes."""
        try:
            return self._send("GET", "/readyz", accept="*/*") == b"ok"
        except ClusterError:
            return False

    def _call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        content_type: str = JSON,
    ) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self._send(method, path, query, body, content_type))
        return answer

    def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        content_type: str = JSON,
        accept: str = JSON,
    ) -> bytes:
        url = f"{self.server}{path}" + (f"?{urlencode(query)}" if query else "")
        headers = {"Accept": accept, "Content-Type": content_type, "User-Agent": USER_AGENT}
        if authorization := self._access.authorization():
            headers["Authorization"] = authorization
        content = None if body is None else json.dumps(body)
        try:
            response = self._pool.request(method, url, body=content, headers=headers, timeout=TIMEOUT)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise ApiUnavailable(f"The API server of {self.kubeconfig} does not answer: {error}.") from error
        if response.status >= http.HTTPStatus.BAD_REQUEST:
            raise ApiError(response.status, _message(response.data), f"{method} {path}")
        return response.data


@dataclass(frozen=True)
class _Access:
    """What a kubeconfig says of its current context."""

    server: str
    tls: ssl.SSLContext
    authorization: Callable[[], str]


def _read(kubeconfig: Path) -> _Access:
    config = yaml.safe_load(kubeconfig.read_text())
    context = _named(config["contexts"], config["current-context"])["context"]
    cluster = _named(config["clusters"], context["cluster"])["cluster"]
    user = _named(config["users"], context["user"])["user"]
    if not (cluster.keys() <= OWN_CLUSTER and user.keys() <= OWN_USER):
        return _read_by_kubernetes_client(kubeconfig)
    authority = cluster.get("certificate-authority-data")
    tls = ssl.create_default_context(cadata=base64.b64decode(authority).decode() if authority else None)
    if "client-certificate-data" in user:
        with tempfile.NamedTemporaryFile() as pair:
            for part in ("client-certificate-data", "client-key-data"):
                pair.write(base64.b64decode(user[part]) + b"\n")
            pair.flush()
            tls.load_cert_chain(pair.name)
    token = user.get("token")
    return _Access(cluster["server"].rstrip("/"), tls, lambda: f"Bearer {token}" if token else "")


def _read_by_kubernetes_client(kubeconfig: Path) -> _Access:
    from kubernetes.client import Configuration  # noqa: PLC0415 - see the module
    from kubernetes.config import load_kube_config  # noqa: PLC0415

    settings = Configuration()
    load_kube_config(config_file=str(kubeconfig), client_configuration=settings)  # type: ignore[no-untyped-call]
    tls = ssl.create_default_context(cafile=settings.ssl_ca_cert)
    if not settings.verify_ssl:
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE
    if settings.cert_file:
        tls.load_cert_chain(settings.cert_file, settings.key_file)
    return _Access(str(settings.host).rstrip("/"), tls, lambda: settings.get_api_key_with_prefix("authorization") or "")


def _named(entries: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(entry for entry in entries if entry["name"] == name)


def _message(body: bytes) -> str:
    try:
        return str(json.loads(body).get("message", body.decode()))
    except (AttributeError, ValueError):
        return body.decode(errors="replace").strip()


def jobs_path(namespace: str, name: str = "") -> str:
    """Return the URL path of a job, or of all jobs of a namespace."""
    return f"/apis/dtj.dev/v1alpha1/namespaces/{namespace}/distributedtrainingjobs" + (f"/{name}" if name else "")


def core_path(namespace: str, plural: str, name: str = "") -> str:
    """Return the URL path of an object of the core group, or of all of a namespace."""
    return f"/api/v1/namespaces/{namespace}/{plural}" + (f"/{name}" if name else "")
