"""A real API server for the tests of this directory: built once, cached, started once a session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.cluster.api_server import Plane, plane
from tests.support.chart import install

STRICT = "--enable-admission-plugins=NodeRestriction,OwnerReferencesPermissionEnforcement"
"""As some distributions run it: who sets blockOwnerDeletion has to be allowed to."""


@pytest.fixture(scope="session")
def api_plane() -> Iterator[Plane]:
    """etcd and kube-apiserver alone: no controllers, no nodes."""
    with plane() as running:
        yield running


@pytest.fixture(scope="session")
def strict_plane() -> Iterator[Plane]:
    """A strict API server with controllers, scheduler and fake nodes."""
    with plane(fake_nodes=2, server_flags=(STRICT,)) as running:
        yield running


@pytest.fixture(scope="session")
def account(strict_plane: Plane) -> Path:
    """A kubeconfig of the operator's ServiceAccount on a cluster with the chart's definition and rights."""
    return install(strict_plane)
