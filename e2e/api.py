"""A synchronous Kubernetes client for e2e: plain dicts, any kubeconfig."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import urllib3
from kubernetes.client import Configuration
from kubernetes.config import load_kube_config

from e2e.failure import Failure

GROUP = "/apis/dtj.dev/v1alpha1"


class Refused(Exception):  # noqa: N818 - what happened, not a fault
    """The API server refused a request; `code` is the HTTP status and `message` its own sentence."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(f"{code} {reason}: {message}")
        self.code = code
        self.reason = reason
        self.message = message


class Api:
    """One connection pool to one API server; safe to use from several threads."""

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig
        settings = Configuration()
        load_kube_config(config_file=str(kubeconfig), client_configuration=settings)  # type: ignore[no-untyped-call]
        self._settings = settings
        self._server = str(settings.host).rstrip("/")
        self._pool = urllib3.PoolManager(
            maxsize=8,
            block=False,
            retries=False,
            ca_certs=settings.ssl_ca_cert,
            cert_file=settings.cert_file,
            key_file=settings.key_file,
            cert_reqs="CERT_REQUIRED" if settings.verify_ssl else "CERT_NONE",
        )

    def get(self, path: str, **query: str) -> dict[str, Any]:
        return self._call("GET", path, query=query)

    def post(self, path: str, body: Mapping[str, Any], **query: str) -> dict[str, Any]:
        return self._call("POST", path, body=body, query=query)

    def patch(self, path: str, body: Mapping[str, Any], **query: str) -> dict[str, Any]:
        """Send a JSON merge patch."""
        return self._call("PATCH", path, body=body, query=query, content_type="application/merge-patch+json")

    def apply(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Create the object or update it to `body`, by server-side apply."""
        query = {"fieldManager": "dtj-e2e", "force": "true"}
        return self._call("PATCH", path, body=body, query=query, content_type="application/apply-patch+yaml")

    def delete(self, path: str, **query: str) -> None:
        """Delete one object, if it exists."""
        try:
            self._call("DELETE", path, query=query)
        except Refused as refused:
            if refused.code != 404:
                raise

    def find(self, path: str) -> dict[str, Any] | None:
        """Return the object, or None where there is none."""
        try:
            return self.get(path)
        except Refused as refused:
            if refused.code == 404:
                return None
            raise

    def items(self, path: str, **query: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.get(path, **query)["items"]
        return found

    def text(self, path: str, **query: str) -> str:
        """Return a body that is not JSON: the log of a container, a page of metrics."""
        return self._send("GET", path, None, query, "application/json", accept="*/*").decode(errors="replace")

    def _call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str],
        body: Mapping[str, Any] | None = None,
        content_type: str = "application/json",
    ) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self._send(method, path, body, query, content_type))
        return answer

    def _send(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        query: Mapping[str, str],
        content_type: str,
        accept: str = "application/json",
    ) -> bytes:
        target = f"{self._server}{path}" + (f"?{urlencode(query)}" if query else "")
        headers = {"Accept": accept, "Content-Type": content_type, "User-Agent": "dtj-e2e"}
        token = self._settings.get_api_key_with_prefix("authorization")
        if token:
            headers["Authorization"] = token
        try:
            response = self._pool.request(
                method,
                target,
                body=None if body is None else json.dumps(body),
                headers=headers,
                timeout=urllib3.Timeout(connect=5, read=30),
            )
        except urllib3.exceptions.HTTPError as error:
            raise Failure(f"The API server of {self.kubeconfig} does not answer: {error}.") from error
        if response.status >= 400:
            raise _refused(response.status, response.data)
        return response.data


def _refused(code: int, body: bytes) -> Refused:
    try:
        status = json.loads(body)
        return Refused(code, str(status.get("reason")), str(status.get("message")))
    except (AttributeError, ValueError):
        return Refused(code, "", body.decode(errors="replace").strip())


def jobs_path(namespace: str, name: str = "") -> str:
    return f"{GROUP}/namespaces/{namespace}/distributedtrainingjobs" + (f"/{name}" if name else "")


def core_path(namespace: str, plural: str, name: str = "") -> str:
    return f"/api/v1/namespaces/{namespace}/{plural}" + (f"/{name}" if name else "")
