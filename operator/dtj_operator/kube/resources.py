"""GroupVersionResource: the kinds that the operator uses, and their paths."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GroupVersionResource:
    """The group, version and plural name of one kind, as in its path."""

    group: str
    """Empty for the core group."""
    version: str
    plural: str

    @property
    def singular(self) -> str:
        """The singular name, as kubectl takes it."""
        stem = self.plural.removesuffix("s")
        return f"{stem.removesuffix('ie')}y" if stem.endswith("ie") else stem

    @property
    def api_version(self) -> str:
        """The apiVersion of its objects."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str | None, name: str = "", subresource: str = "") -> str:
        """Return the path below the server's address; namespace None means all namespaces or a cluster-scoped kind."""
        parts = [f"/apis/{self.group}" if self.group else "/api", self.version]
        if namespace:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        if name:
            parts.append(name)
        if subresource:
            parts.append(subresource)
        return "/".join(parts)


JOBS = GroupVersionResource("dtj.dev", "v1alpha1", "distributedtrainingjobs")
PODS = GroupVersionResource("", "v1", "pods")
SERVICES = GroupVersionResource("", "v1", "services")
CONFIG_MAPS = GroupVersionResource("", "v1", "configmaps")
EVENTS = GroupVersionResource("", "v1", "events")
NODES = GroupVersionResource("", "v1", "nodes")
NETWORK_POLICIES = GroupVersionResource("networking.k8s.io", "v1", "networkpolicies")
LEASES = GroupVersionResource("coordination.k8s.io", "v1", "leases")
ACCESS_REVIEWS = GroupVersionResource("authorization.k8s.io", "v1", "selfsubjectaccessreviews")
