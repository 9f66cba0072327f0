"""A Kubernetes API server in this process, with the real one's semantics, for tests.

    async with ApiServer() as server:
        server.kubeconfig(path, token="operator-1")            # for the operator, kubectl, any client
        server.create("pods", {...})                           # as an administrator, without HTTP
        server.list("pods", "default")
        server.log.writes("dtj-operator/")                     # who wrote what

It serves core/v1 pods, services, events, namespaces, nodes; coordination leases; our own kind with
`status`, under the schema and the CEL rules of the committed CRD; CRDs; discovery; access reviews. It keeps
one counter of resourceVersions, answers 409 to stale writes, isolates the status subresource, deletes
pods gracefully (a kubelet has to confirm: `tests.support.kubelet`), collects garbage by owner
references, and streams watches with bookmarks, 410 and in-stream errors.

Faults on demand:

    server.faults.on_write(3, Cut(after_commit=True), user_agent="dtj-operator/")
    server.faults.add(lambda request: request.resource == "pods", too_many_requests(), times=2)
    server.freeze("pods"); server.thaw("pods")                 # a watch cache that lags
    server.drop_events(lambda commit: ...)                     # lost events
    server.delay("pods", 0.5)                                  # late events
    server.forget_history(); server.break_streams("pods")      # 410 after a compaction
    server.registry.pod_quota["default"] = 2                   # 403 exceeded quota
    server.access.grant("operator-1", "system:serviceaccount:dtj-system:dtj-operator", rules)
    server.kill_client("operator-1")                           # as kill -9: nothing that it still sends arrives
    server.on_commit(listener)                                 # called within every commit

What it does not do: server-side apply, scale, protobuf, tables, strategic merge beyond the lists in `patch.py`,
exec and logs, admission webhooks, the cost budget of CEL.
"""

from tests.support.apiserver.faults import Answer, Cut, Hang, Meanwhile, Slow, gateway_timeout, too_many_requests
from tests.support.apiserver.kinds import Object
from tests.support.apiserver.server import ApiServer
from tests.support.apiserver.storage import Commit, EventType

__all__ = [
    "Answer",
    "ApiServer",
    "Commit",
    "Cut",
    "EventType",
    "Hang",
    "Meanwhile",
    "Object",
    "Slow",
    "gateway_timeout",
    "too_many_requests",
]
