"""A real API server for the tests of this directory: built once, cached, started once a session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.cluster.control_plane import ControlPlane, start_control_plane
from tests.support.chart import install

STRICT = "--enable-admission-plugins=NodeRestriction,OwnerReferencesPermissionEnforcement"
"""As in some distributions: setting blockOwnerDeletion needs permission."""


@pytest.fixture(scope="session")
def control_plane() -> Iterator[ControlPlane]:
    """Start etcd and kube-apiserver alone: no controllers, no nodes."""
    with start_control_plane() as running:
        yield running


@pytest.fixture(scope="session")
def strict_control_plane() -> Iterator[ControlPlane]:
    """Start a strict API server with controllers, scheduler and fake nodes."""
    with start_control_plane(fake_nodes=2, server_flags=(STRICT,)) as running:
        yield running


@pytest.fixture(scope="session")
def account(strict_control_plane: ControlPlane) -> Path:
    """Install the chart's CRD and roles; returns a kubeconfig of the operator's ServiceAccount."""
    return install(strict_control_plane)
