"""A real kube-apiserver behind a proxy that makes the same trouble on demand as `tests.support.apiserver`.

    ground = prepare(plane)                                    # our CRD, the chart's rights, two nodes; once a plane
    async with RealServer(ground) as server:                   # a namespace of its own
        server.url                                             # for the operator: the proxy
        server.create("pods", {...}); await server.settled()   # as an administrator, past the proxy
        server.faults.on_write(3, Cut(after_commit=True), user_agent="dtj-operator/")

The proxy shows its clients a cluster in which this namespace is the only one, so many of them go on at the same
time on one plane. Only what lies between the operator and the server is played: refusals, cut connections,
streams that stand still or break, a history that is forgotten. Each request that goes through is answered by the
real server, under the rights of the operator's ServiceAccount.
"""

from tests.support.realserver.real_cluster import Ground, prepare
from tests.support.realserver.server import RealServer

__all__ = ["Ground", "RealServer", "prepare"]
