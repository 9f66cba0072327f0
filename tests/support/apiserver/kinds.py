"""The kinds that the server serves, and their properties."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

Object = dict[str, Any]
"""One API object, as decoded JSON. Objects that were committed are never changed in place."""

ALL_VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True, slots=True)
class Kind:
    """One resource of one group and version."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    subresources: tuple[str, ...] = ()
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    counts_generations: bool = False
    """Whether metadata.generation increases with changes of the spec."""
    unconditional_update: bool = True
    """Whether a PUT without a resourceVersion is accepted."""
    create_on_update: bool = False
    """Whether a PUT of a missing object creates it."""
    returns_deleted: bool = False
    """Whether an immediate deletion answers with the object instead of a Status."""
    custom: bool = False
    """Whether the kind comes from a CRD."""

    @property
    def api_version(self) -> str:
        """Return `v1` or `group/version`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """Return the name in messages, `pods` or `leases.coordination.k8s.io`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def root(self) -> str:
        """Return the URL path of the group and version, without a trailing slash."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"


NAMESPACES: Final = Kind(
    "", "v1", "namespaces", "Namespace", namespaced=False, subresources=("status", "finalize"), short_names=("ns",)
)
NODES: Final = Kind("", "v1", "nodes", "Node", namespaced=False, subresources=("status",), short_names=("no",))
PODS: Final = Kind(
    "",
    "v1",
    "pods",
    "Pod",
    subresources=("status",),
    short_names=("po",),
    categories=("all",),
    counts_generations=True,
    returns_deleted=True,
)
SERVICES: Final = Kind(
    "",
    "v1",
    "services",
    "Service",
    subresources=("status",),
    short_names=("svc",),
    categories=("all",),
    returns_deleted=True,
)
EVENTS: Final = Kind("", "v1", "events", "Event", short_names=("ev",))
NETWORK_POLICIES: Final = Kind(
    "networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", short_names=("netpol",), counts_generations=True
)
LEASES: Final = Kind("coordination.k8s.io", "v1", "leases", "Lease", unconditional_update=False, create_on_update=True)
CRDS: Final = Kind(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    namespaced=False,
    subresources=("status",),
    short_names=("crd", "crds"),
    counts_generations=True,
    unconditional_update=False,
)
JOBS: Final = Kind(
    "dtj.dev",
    "v1alpha1",
    "distributedtrainingjobs",
    "DistributedTrainingJob",
    subresources=("status",),
    short_names=("dtj",),
    categories=("all", "training"),
    counts_generations=True,
    unconditional_update=False,
    custom=True,
)
KINDS: Final = (NAMESPACES, NODES, PODS, SERVICES, EVENTS, NETWORK_POLICIES, LEASES, CRDS, JOBS)


def find(plural: str, group: str | None = None, version: str | None = None) -> Kind | None:
    """Return the kind of this plural name; None if the server does not serve it."""
    for kind in KINDS:
        if kind.plural == plural and group in (None, kind.group) and version in (None, kind.version):
            return kind
    return None
