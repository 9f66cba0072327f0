"""Real Kubernetes clusters for tests, the demo and measurements.

`python -m e2e.cluster up` starts one on this machine; see README.md beside this file.
From Python: `e2e.cluster.providers.up(...)`, `providers.attach(...)`, and
`e2e.cluster.control_plane.start_control_plane(...)` for an API server alone.
"""

from e2e.cluster.audit import AuditLog, Request
from e2e.cluster.interface import Cluster, ClusterError, NodeFaults

__all__ = ["AuditLog", "Cluster", "ClusterError", "NodeFaults", "Request"]
