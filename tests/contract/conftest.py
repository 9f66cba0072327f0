"""A real API server for the tests of this directory: built once, cached, started once a session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.cluster.control_plane import ControlPlane, start_control_plane
from tests.support.chart import install

STRICT = "--enable-admission-plugins=NodeRestriction,OwnerReferencesPermissionEnforcement"
"""As some distributions run it: who sets blockOwnerDeletion has to be allowed to."""


@pytest.fixture(scope="session")
def control_plane() -> Iterator[ControlPlane]:
    """etcd and kube-apiserver alone: no controllers, no nodes."""
    with start_control_plane() as running:
        yield running


@pytest.fixture(scope="session")
def strict_control_plane() -> Iterator[ControlPlane]:
    """A strict API server with controllers, scheduler and fake nodes."""
    with start_control_plane(fake_nodes=2, server_flags=(STRICT,)) as running:
        yield running


@pytest.fixture(scope="session")
def account(strict_control_plane: ControlPlane) -> Path:
    """A kubeconfig of the operator's ServiceAccount on a cluster with the chart's definition and rights."""
    return install(strict_control_plane)
