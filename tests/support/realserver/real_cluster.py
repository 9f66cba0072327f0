"""A real control plane, prepared so that operators can work on it."""

from __future__ import annotations

import itertools
import ssl
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final

from dtj_operator.kube.kubeconfig import from_kubeconfig
from e2e.cluster.control_plane import GARBAGE_COLLECTOR
from tests.support.chart import install

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dtj_operator.kube.rest_config import RestConfig
    from e2e.cluster.control_plane import ControlPlane
    from tests.support.apiserver import Object

Question = tuple[str, str, bytes]
"""Method, path and body."""
Answer = tuple[int, bytes, dict[str, str]]
"""Code, body and headers."""

NODES: Final = ("node-a", "node-b")


@dataclass(frozen=True)
class RealCluster:
    """A prepared control plane, and what its clients need to know."""

    admin: RestConfig
    operator: RestConfig
    """The operator's ServiceAccount, with the rights that the chart renders and no others."""
    nodes: tuple[Object, ...]
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    """Numbers for names of namespaces."""
    answers: dict[Question, Answer] = field(default_factory=dict)
    """Cached answers about kinds and access reviews, which do not change."""

    @cached_property
    def admin_tls(self) -> ssl.SSLContext:
        """TLS with the administrator's certificate."""
        return _tls(self.admin)

    @cached_property
    def operator_tls(self) -> ssl.SSLContext:
        """TLS with the server's authority alone: the operator shows a token."""
        return _tls(self.operator)


def prepare(control_plane: ControlPlane) -> RealCluster:
    """Install the CRD and the operator's roles, start garbage collection, and register nodes without leases."""
    account = install(control_plane)
    control_plane.start_controllers(GARBAGE_COLLECTOR)
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
    for node in NODES:
        control_plane.api.create(
            "/api/v1/nodes", {"metadata": {"name": node, "labels": {"kubernetes.io/hostname": node}}}
        )
        control_plane.api.patch(f"/api/v1/nodes/{node}/status", {"status": {"conditions": [ready]}})
    return RealCluster(
        admin=from_kubeconfig(str(control_plane.kubeconfig)),
        operator=from_kubeconfig(str(account)),
        nodes=tuple(control_plane.api.get("/api/v1/nodes")["items"]),
    )


def _tls(connection: RestConfig) -> ssl.SSLContext:
    context = connection.ssl_context()
    if context is None:
        raise ValueError(f"{connection.server} is not served over TLS")
    return context
