"""Where the API server is and who we are: a kubeconfig, or the pod's own service account.

Exec and auth-provider plugins are refused: the operator's image holds no such programs. So is all else that says how to
connect and is not done here, impersonation above all.
"""

from __future__ import annotations

import base64
import binascii
import os
import ssl
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from yarl import URL

if TYPE_CHECKING:
    from collections.abc import Mapping

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
TOKEN_REREAD_SECONDS = 60.0
"""Projected tokens are replaced well before they expire; reading once a minute is enough."""

OUTAGE_SECONDS = 900.0
"""What a pod is told of its server is right, so a server out of reach is being upgraded. Who ends then is started again
ever later by the kubelet, at last five minutes after the server is back."""
IMPERSONATION = ("as", "as-uid", "as-groups", "as-user-extra")
"""To act as the user behind them instead would be to act with more rights than were meant."""


class ConfigError(Exception):
    """The connection cannot be described; the message is a sentence for the administrator."""


@dataclass(slots=True)
class Token:
    """A bearer token, fixed or in a file that is read again once a minute."""

    value: str = ""
    file: Path | None = None
    _read_at: float = field(default=0.0, repr=False)

    def current(self) -> str:
        """The token to send now; empty when there is none."""
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
        """Read the file again at the next use (the server has refused what we have)."""
        if self.file is not None:
            self._read_at = float("-inf")


@dataclass(frozen=True, slots=True)
class RestConfig:
    """One API server with one identity."""

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
    """How long the server may be out of reach at the start, before its address is taken for a wrong one."""

    def ssl_context(self) -> ssl.SSLContext | None:
        """TLS as configured; None for plain http. Raises ConnectionProblem."""
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
                context.load_cert_chain(_as_file(self.certificate, files), _as_file(self.private_key, files))
        return context


def load_config(kubeconfig: str | None, environment: Mapping[str, str]) -> RestConfig:
    """The connection of a kubeconfig (argument, then KUBECONFIG), else the pod's service account.

    Raises ConnectionProblem.
    """
    paths = kubeconfig or environment.get("KUBECONFIG", "")
    if paths:
        return from_kubeconfig(paths)
    if environment.get("KUBERNETES_SERVICE_HOST"):
        return in_cluster_config(environment, SERVICE_ACCOUNT)
    home = Path(environment.get("HOME", "/")) / ".kube" / "config"
    if home.exists():
        return from_kubeconfig(str(home))
    msg = "no cluster to talk to: set KUBECONFIG or --kubeconfig, or run inside a cluster"
    raise ConfigError(msg)


def in_cluster_config(environment: Mapping[str, str], folder: Path) -> RestConfig:
    """The connection of a pod, as the kubelet mounts it."""
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
        ca=_read(folder / "ca.crt", "the service account's CA"),
        token=token,
        startup_timeout_seconds=OUTAGE_SECONDS,
    )


def from_kubeconfig(paths: str) -> RestConfig:
    """The current context of a kubeconfig.

    Of a list of files (separated as in PATH) the first that exists is read.
    """
    names = [name for name in paths.split(os.pathsep) if name]
    found = next((Path(name) for name in names if Path(name).exists()), None)
    if found is None:
        msg = f"the kubeconfig {paths} does not exist: check KUBECONFIG or --kubeconfig"
        raise ConfigError(msg)
    try:
        document = yaml.safe_load(found.read_bytes())
    except (OSError, yaml.YAMLError) as error:
        detail = " ".join(str(error).split())
        msg = f"the kubeconfig {found} cannot be read: {detail}"
        raise ConfigError(msg) from error
    if not isinstance(document, dict):
        msg = f"the kubeconfig {found} is empty or not a kubeconfig"
        raise ConfigError(msg)
    current = document.get("current-context") or ""
    context = _entry(document, found, "contexts", "context", current)
    cluster = _entry(document, found, "clusters", "cluster", context.get("cluster") or "")
    user = _entry(document, found, "users", "user", context.get("user") or "") if context.get("user") else {}
    for plugin in ("exec", "auth-provider"):
        if plugin in user:
            msg = (
                f"user {context['user']!r} in the kubeconfig {found} needs an {plugin} plugin, which the operator "
                "does not run: use a token or a client certificate"
            )
            raise ConfigError(msg)
    if "username" in user:
        msg = f"user {context['user']!r} in the kubeconfig {found} has a password, which API servers no longer accept"
        raise ConfigError(msg)
    if any(name in user for name in IMPERSONATION):
        msg = (
            f"user {context['user']!r} in the kubeconfig {found} impersonates somebody, which the operator does not "
            "do: use that account's own token or client certificate"
        )
        raise ConfigError(msg)
    if cluster.get("proxy-url"):
        msg = (
            f"cluster {context.get('cluster')!r} in the kubeconfig {found} is reached through a proxy-url, which the "
            "operator does not use: give an address that it reaches itself"
        )
        raise ConfigError(msg)
    server = str(cluster.get("server") or "")
    if not _is_address(server):
        cluster_name = context.get("cluster")
        msg = f"cluster {cluster_name!r} in the kubeconfig {found} has no http or https server address: {server!r}"
        raise ConfigError(msg)
    folder = found.parent
    token_file = user.get("tokenFile")
    token = Token(value=str(user.get("token") or ""))
    if token_file and not token.value:
        token = Token(file=folder / str(token_file))
        token.current()
    certificate = _material(user, "client-certificate", folder)
    private_key = _material(user, "client-key", folder)
    if bool(certificate) != bool(private_key):
        msg = f"user {context['user']!r} in the kubeconfig {found} needs both a client certificate and its key"
        raise ConfigError(msg)
    return RestConfig(
        server=server.rstrip("/"),
        namespace=str(context.get("namespace") or "default"),
        ca=_material(cluster, "certificate-authority", folder),
        certificate=certificate,
        private_key=private_key,
        token=token,
        insecure=bool(cluster.get("insecure-skip-tls-verify")),
        server_name=str(cluster.get("tls-server-name") or ""),
    )


def _is_address(server: str) -> bool:
    try:
        return server.startswith(("http://", "https://")) and bool(URL(server).host)
    except ValueError:
        return False


def _entry(document: dict[str, Any], path: Path, plural: str, singular: str, name: str) -> dict[str, Any]:
    entries = document.get(plural)
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and entry.get("name") == name:
            value = entry.get(singular) or {}
            if isinstance(value, dict):
                return value
    msg = f"the kubeconfig {path} names the {singular} {name!r} but does not define it"
    raise ConfigError(msg)


def _material(section: Mapping[str, Any], key: str, folder: Path) -> bytes:
    """PEM from `<key>-data` (base64) or the file `<key>`; empty when neither is there."""
    inline = section.get(f"{key}-data")
    if inline:
        try:
            return base64.b64decode(str(inline), validate=False)
        except binascii.Error as error:
            msg = f"{key}-data in the kubeconfig is not base64"
            raise ConfigError(msg) from error
    name = section.get(key)
    return _read(folder / str(name), key) if name else b""


def _read(path: Path, what: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        msg = f"{what} cannot be read from {path}: {error.strerror}"
        raise ConfigError(msg) from error


def _as_file(content: bytes, files: ExitStack) -> str:
    """A path to the content for the TLS library, which reads keys only from files; gone with `files`."""
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
