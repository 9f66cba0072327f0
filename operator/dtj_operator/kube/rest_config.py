"""RestConfig: the API server's address, TLS and token; inside a cluster they come from the service account."""

from __future__ import annotations

import os
import ssl
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
TOKEN_REREAD_SECONDS = 60.0
"""Projected tokens are replaced well before they expire; reading once a minute is enough."""

OUTAGE_SECONDS = 900.0
"""How long a pod waits for its server at the start. The address that a pod is given is right, so a server that cannot
be reached is being upgraded. An operator that exits is restarted by the kubelet with a growing delay, in the end up to
five minutes after the server is back."""


class ConfigError(Exception):
    """A configuration that cannot be used; the message is a sentence for the administrator."""


@dataclass(slots=True)
class Token:
    """A bearer token, fixed or in a file that is read again once a minute."""

    value: str = ""
    file: Path | None = None
    _read_at: float = field(default=0.0, repr=False)

    def current(self) -> str:
        """Return the token to send now; empty when there is none. Raises ConfigError."""
        if self.file is None:
            return self.value
        now = time.monotonic()
        if not self.value or now - self._read_at >= TOKEN_REREAD_SECONDS:
            try:
                self.value = self.file.read_text(encoding="utf-8").strip()
            except OSError as error:
                if not self.value:
                    msg = f"the token file {self.file} cannot be read: {error.strerror}"
                    raise ConfigError(msg) from error
            self._read_at = now
        return self.value

    def forget(self) -> None:
        """Read the file again at the next use, because the server has refused the token."""
        if self.file is not None:
            self._read_at = float("-inf")


@dataclass(frozen=True, slots=True)
class RestConfig:
    """The address of one API server and the identity used there."""

    server: str
    """Scheme, host and port, and a path prefix if there is one; no trailing slash."""
    namespace: str = "default"
    """The namespace that belongs to this identity: that of the context, or the pod's own."""
    ca: bytes = b""
    """PEM; empty: the system's authorities."""
    certificate: bytes = b""
    private_key: bytes = b""
    token: Token = field(default_factory=Token)
    insecure: bool = False
    server_name: str = ""
    """Name expected in the server's certificate when it differs from the host."""
    startup_timeout_seconds: float = 30.0
    """How long the server may be unreachable at the start before the operator gives up."""

    def ssl_context(self) -> ssl.SSLContext | None:
        """Return the TLS context; None for plain http. Raises ConfigError."""
        if not self.server.startswith("https://"):
            return None
        try:
            return self._tls()
        except (ssl.SSLError, ValueError) as error:
            msg = f"the certificates for {self.server} are no PEM or do not belong together: {error}"
            raise ConfigError(msg) from error

    def _tls(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cadata=self.ca.decode("ascii") if self.ca else None)
        if self.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self.certificate:
            with ExitStack() as files:
                context.load_cert_chain(
                    _as_file(self.certificate, files),
                    _as_file(self.private_key, files),
                )
        return context


def in_cluster_config(environment: Mapping[str, str], folder: Path) -> RestConfig:
    """Read a pod's service account, as the kubelet mounts it in `folder`. Raises ConfigError."""
    host = environment["KUBERNETES_SERVICE_HOST"]
    port = environment.get("KUBERNETES_SERVICE_PORT", "443")
    if ":" in host:
        host = f"[{host}]"
    token = Token(file=folder / "token")
    token.current()
    namespace = folder / "namespace"
    return RestConfig(
        server=f"https://{host}:{port}",
        namespace=namespace.read_text(encoding="utf-8").strip() if namespace.exists() else "default",
        ca=read_file(folder / "ca.crt", "the service account's CA"),
        token=token,
        startup_timeout_seconds=OUTAGE_SECONDS,
    )


def read_file(path: Path, what: str) -> bytes:
    """Read a file that a configuration names; `what` it is stands in the error. Raises ConfigError."""
    try:
        return path.read_bytes()
    except OSError as error:
        msg = f"{what} cannot be read from {path}: {error.strerror}"
        raise ConfigError(msg) from error


def _as_file(content: bytes, files: ExitStack) -> str:
    """Return a path to the content for the TLS library, which reads keys only from files; it ends with `files`."""
    if hasattr(os, "memfd_create"):
        # Never on a disk, and possible where the root file system is read-only.
        descriptor = os.memfd_create("dtj-tls")
        files.callback(os.close, descriptor)
        os.write(descriptor, content)
        return f"/proc/self/fd/{descriptor}"
    handle = files.enter_context(tempfile.NamedTemporaryFile())  # noqa: SIM115  (the stack closes it)
    handle.write(content)
    handle.flush()
    return handle.name
