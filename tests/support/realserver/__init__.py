"""A real kube-apiserver behind a proxy that injects the same faults as `tests.support.apiserver`.

    cluster = prepare(control_plane)                           # CRD, the chart's roles, two nodes; once a control plane
    async with RealServer(cluster) as server:                  # a namespace of its own
        server.url                                             # for the operator: the proxy
        server.create("pods", {...}); await server.settled()   # as an administrator, past the proxy
        server.faults.on_write(3, Cut(after_commit=True), user_agent="dtj-operator/")

The proxy shows its clients a cluster in which this namespace is the only one, so many of them can run at the same
time on one control plane. Only what lies between the operator and the server is simulated: refusals, cut connections,
streams that stand still or break, a history that is compacted. Each request that goes through is answered by the
real server, under the rights of the operator's ServiceAccount.
"""

from tests.support.realserver.real_cluster import RealCluster, prepare
from tests.support.realserver.server import RealServer

__all__ = ["RealCluster", "RealServer", "prepare"]
