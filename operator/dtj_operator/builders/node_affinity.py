"""Node affinity that keeps a new pod away from lost nodes, and from nodes that reject such pods.

The operator declares a node lost sooner than the node controller does. Until that one taints the node, the scheduler
often prefers it, because it has just lost a pod. A preference is enough. A requirement would also keep the pod from
a node that has recovered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
MAX_WEIGHT = 100
"""The largest weight that Kubernetes allows."""


def prefer_other_nodes(pod: dict[str, Any], nodes: Sequence[str]) -> dict[str, Any]:
    """Return the pod with a preference for other nodes than these; the affinity of the template is kept."""
    elsewhere = [{"key": "metadata.name", "operator": "NotIn", "values": [node]} for node in nodes]
    affinity = pod["spec"].get("affinity") or {}
    node_affinity = affinity.get("nodeAffinity") or {}
    preferences = [
        *(node_affinity.get(PREFERRED) or ()),
        {"weight": MAX_WEIGHT, "preference": {"matchFields": elsewhere}},
    ]
    spec = pod["spec"] | {"affinity": affinity | {"nodeAffinity": node_affinity | {PREFERRED: preferences}}}
    return pod | {"spec": spec}
