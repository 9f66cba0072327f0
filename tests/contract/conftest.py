"""A real API server for the tests of this directory: built once, cached, started once a session."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from e2e.cluster.plane import Plane, plane


@pytest.fixture(scope="session")
def api_plane() -> Iterator[Plane]:
    """etcd and kube-apiserver alone: no controllers, no nodes."""
    with plane() as running:
        yield running


@pytest.fixture(scope="session")
def controlled_plane() -> Iterator[Plane]:
    """With kube-controller-manager, for garbage collection and namespaces."""
    with plane(controllers=True) as running:
        yield running


@pytest.fixture(scope="session")
def kwok_plane() -> Iterator[Plane]:
    """With controllers, scheduler and four fake nodes whose pods run without containers."""
    with plane(fake_nodes=4) as running:
        yield running
