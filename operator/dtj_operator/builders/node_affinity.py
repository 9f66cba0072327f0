"""Where a pod is better not placed.

A node is given up by us sooner than by the node controller, and until that taints it the scheduler takes it for a
good place, often the best: it has just lost a pod. A wish is enough. A demand would outlive the loss, and keep the
pod from a node that has come back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
MAX_WEIGHT = 100
"""The largest weight."""


def prefer_other_nodes(pod: dict[str, Any], nodes: Sequence[str]) -> dict[str, Any]:
    """The pod with the wish to run on none of these nodes; what the template wishes is kept."""
    elsewhere = [{"key": "metadata.name", "operator": "NotIn", "values": [node]} for node in nodes]
    affinity = pod["spec"].get("affinity") or {}
    of_nodes = affinity.get("nodeAffinity") or {}
    wishes = [*(of_nodes.get(PREFERRED) or ()), {"weight": MAX_WEIGHT, "preference": {"matchFields": elsewhere}}]
    spec = pod["spec"] | {"affinity": affinity | {"nodeAffinity": of_nodes | {PREFERRED: wishes}}}
    return pod | {"spec": spec}
