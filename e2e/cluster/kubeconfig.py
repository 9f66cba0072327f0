"""Kubeconfig files: with a client certificate, or with a token."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import yaml

from e2e.cluster.pki import Pair


def write(path: Path, server: str, authority: Path, user: dict[str, Any], *, name: str = "dtj") -> Path:
    """Write a kubeconfig with one context; `user` is the content of its user entry."""
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": name, "cluster": {"server": server, "certificate-authority-data": _data(authority)}}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    return path


def certificate_user(pair: Pair) -> dict[str, Any]:
    """Return the user entry of a client certificate."""
    return {"client-certificate-data": _data(pair.certificate), "client-key-data": _data(pair.key)}


def token_user(token: str) -> dict[str, Any]:
    """Return the user entry of a bearer token."""
    return {"token": token}


def _data(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
