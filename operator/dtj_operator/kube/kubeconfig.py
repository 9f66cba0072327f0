"""RestConfig from a kubeconfig file, or from the pod's service account where there is none.

Exec and auth-provider plugins are refused, because the operator's image does not contain such programs. So is
everything else that a kubeconfig may ask for and the operator does not do, above all impersonation.
"""

from __future__ import annotations

import base64
import binascii
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from yarl import URL

from dtj_operator.kube.rest_config import SERVICE_ACCOUNT, ConfigError, RestConfig, Token, in_cluster_config, read_file

if TYPE_CHECKING:
    from collections.abc import Mapping

IMPERSONATION = ("as", "as-uid", "as-groups", "as-user-extra")
"""Without them the operator would act as the user itself, who has more rights than were meant."""


def load_config(kubeconfig: str | None, environment: Mapping[str, str]) -> RestConfig:
    """Load a kubeconfig (the argument, then KUBECONFIG), else the service account, else ~/.kube/config.

    Raises ConfigError.
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


def from_kubeconfig(paths: str) -> RestConfig:
    """Read the current context of a kubeconfig.

    Of a list of files (separated as in PATH) the first that exists is read. Raises ConfigError.
    """
    path, document = _read_document(paths)
    context = _find_entry(document, path, "contexts", "context", document.get("current-context") or "")
    cluster = _find_entry(document, path, "clusters", "cluster", context.get("cluster") or "")
    user = _find_entry(document, path, "users", "user", context.get("user") or "") if context.get("user") else {}
    _check_user(user, context.get("user"), path)
    _check_cluster(cluster, context.get("cluster"), path)
    folder = path.parent
    token_file = user.get("tokenFile")
    token = Token(value=str(user.get("token") or ""))
    if token_file and not token.value:
        token = Token(file=folder / str(token_file))
        token.current()
    certificate = _read_pem(user, "client-certificate", folder)
    private_key = _read_pem(user, "client-key", folder)
    if bool(certificate) != bool(private_key):
        msg = f"user {context['user']!r} in the kubeconfig {path} needs both a client certificate and its key"
        raise ConfigError(msg)
    return RestConfig(
        server=str(cluster["server"]).rstrip("/"),
        namespace=str(context.get("namespace") or "default"),
        ca=_read_pem(cluster, "certificate-authority", folder),
        certificate=certificate,
        private_key=private_key,
        token=token,
        insecure=bool(cluster.get("insecure-skip-tls-verify")),
        server_name=str(cluster.get("tls-server-name") or ""),
    )


def _read_document(paths: str) -> tuple[Path, dict[str, Any]]:
    """Read the first file of the list that exists."""
    names = [name for name in paths.split(os.pathsep) if name]
    path = next((Path(name) for name in names if Path(name).exists()), None)
    if path is None:
        msg = f"the kubeconfig {paths} does not exist: check KUBECONFIG or --kubeconfig"
        raise ConfigError(msg)
    try:
        document = yaml.safe_load(path.read_bytes())
    except (OSError, yaml.YAMLError) as error:
        detail = " ".join(str(error).split())
        msg = f"the kubeconfig {path} cannot be read: {detail}"
        raise ConfigError(msg) from error
    if not isinstance(document, dict):
        msg = f"the kubeconfig {path} is empty or not a kubeconfig"
        raise ConfigError(msg)
    return path, document


def _check_user(user: Mapping[str, Any], name: Any, path: Path) -> None:
    """Raise ConfigError where the user needs what the operator does not do."""
    for plugin in ("exec", "auth-provider"):
        if plugin in user:
            msg = (
                f"user {name!r} in the kubeconfig {path} needs an {plugin} plugin, which the operator "
                "does not run: use a token or a client certificate"
            )
            raise ConfigError(msg)
    if "username" in user:
        msg = f"user {name!r} in the kubeconfig {path} has a password, which API servers no longer accept"
        raise ConfigError(msg)
    if any(key in user for key in IMPERSONATION):
        msg = (
            f"user {name!r} in the kubeconfig {path} impersonates somebody, which the operator does not "
            "do: use that account's own token or client certificate"
        )
        raise ConfigError(msg)


def _check_cluster(cluster: Mapping[str, Any], name: Any, path: Path) -> None:
    """Raise ConfigError where the cluster has no address that the operator can use."""
    if cluster.get("proxy-url"):
        msg = (
            f"cluster {name!r} in the kubeconfig {path} is reached through a proxy-url, which the "
            "operator does not use: give an address that it reaches itself"
        )
        raise ConfigError(msg)
    server = str(cluster.get("server") or "")
    if not _is_address(server):
        msg = f"cluster {name!r} in the kubeconfig {path} has no http or https server address: {server!r}"
        raise ConfigError(msg)


def _is_address(server: str) -> bool:
    try:
        return server.startswith(("http://", "https://")) and bool(URL(server).host)
    except ValueError:
        return False


def _find_entry(document: dict[str, Any], path: Path, plural: str, singular: str, name: str) -> dict[str, Any]:
    entries = document.get(plural)
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and entry.get("name") == name:
            value = entry.get(singular) or {}
            if isinstance(value, dict):
                return value
    msg = f"the kubeconfig {path} names the {singular} {name!r} but does not define it"
    raise ConfigError(msg)


def _read_pem(section: Mapping[str, Any], key: str, folder: Path) -> bytes:
    """Read PEM from `<key>-data` (base64) or the file `<key>`; empty when neither is there."""
    inline = section.get(f"{key}-data")
    if inline:
        try:
            return base64.b64decode(str(inline), validate=False)
        except binascii.Error as error:
            msg = f"{key}-data in the kubeconfig is not base64"
            raise ConfigError(msg) from error
    name = section.get(key)
    return read_file(folder / str(name), key) if name else b""
