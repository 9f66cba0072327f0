"""The embedded cluster itself: pods on every node, DNS, RBAC, storage, lost nodes, and nothing left behind."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from e2e.cluster import Cluster, ClusterError, binaries, embedded, network, providers, record, scratch_image
from e2e.cluster.embedded import EmbeddedCluster

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(bool(os.geteuid()), reason="the embedded cluster needs root"),
]

NAME = "selftest"
PROBE = "localhost/dtj-probe:1"


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    """Start two nodes with one probe pod on each, and a volume that both share."""
    running = embedded.up(NAME, images={PROBE: scratch_image.archive("probe", PROBE)})
    try:
        running.shared_volume("probes", "shared")
        running.kubectl("apply", "-f", "-", stdin=json.dumps(service()))
        for node in running.nodes:
            running.kubectl("apply", "-f", "-", stdin=json.dumps(probe(node)))
        running.kubectl("wait", "-n", "probes", "--for=condition=Ready", "pod", "--all", "--timeout=60s")
        yield running
    finally:
        running.down()


def service() -> dict[str, object]:
    spec = {"clusterIP": "None", "selector": {"app": "probe"}, "ports": [{"port": 8080}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "all", "namespace": "probes"}, "spec": spec}


def probe(node: str) -> dict[str, object]:
    container = {
        "name": "probe",
        "image": PROBE,
        "imagePullPolicy": "Never",
        "volumeMounts": [{"name": "shared", "mountPath": "/shared"}],
        "readinessProbe": {"tcpSocket": {"port": 8080}, "periodSeconds": 1},
        "securityContext": {"runAsNonRoot": True, "runAsUser": 65532},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"on-{node}", "namespace": "probes", "labels": {"app": "probe"}},
        "spec": {
            "nodeName": node,
            "hostname": f"on-{node}",
            "subdomain": "all",
            "containers": [container],
            "volumes": [{"name": "shared", "persistentVolumeClaim": {"claimName": "shared"}}],
        },
    }


def ask(cluster: EmbeddedCluster, node: str, question: str, **words: str) -> str:
    query = "&".join(f"{key}={quote(value, safe='')}" for key, value in words.items())
    return cluster.kubectl(
        "get", "--raw", f"/api/v1/namespaces/probes/pods/on-{node}:8080/proxy/{question}?{query}"
    ).strip()


def wait_until(condition: Callable[[], bool], limit: float) -> float:
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < limit
        time.sleep(0.2)
    return time.monotonic() - began


def ready(cluster: EmbeddedCluster, node: str) -> bool:
    conditions = json.loads(cluster.kubectl("get", "node", node, "-o", "json"))["status"]["conditions"]
    return any(entry["type"] == "Ready" and entry["status"] == "True" for entry in conditions)


def remains(name: str) -> list[str]:
    """Return what is left of a cluster on this machine."""
    tree = os.walk("/sys/fs/cgroup")  # where groups of others come and go
    found = [f"{place}/{group}" for place, groups, _ in tree for group in groups if group.startswith(f"dtj-{name}-")]
    found += network.namespaces(name)
    found += [line for line in Path("/proc/self/mounts").read_text().splitlines() if f"/{name}/" in line]
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if f"{record.directory(name)}/" in words:
            found.append(words)
    home = record.directory(name)
    return found + [str(path) for path in home.parent.glob(f"{name}*") if path.suffix != ".lock"]


def test_pods_on_different_nodes_find_each_other_by_name(cluster: EmbeddedCluster) -> None:
    first, second = cluster.nodes
    address = json.loads(cluster.kubectl("get", "pod", "-n", "probes", f"on-{second}", "-o", "json"))["status"]["podIP"]
    assert ask(cluster, first, "lookup", name=f"on-{second}.all.probes.svc.cluster.local") == address
    assert ask(cluster, first, "dial", address=f"on-{second}.all:8080") == "open"
    assert len(ask(cluster, first, "lookup", name="all").split()) == 2


def test_a_pod_reaches_the_api_through_its_service_and_has_no_rights_of_its_own(cluster: EmbeddedCluster) -> None:
    node = cluster.nodes[0]
    assert ask(cluster, node, "api", path="/version") == "200"
    assert ask(cluster, node, "api", path="/api/v1/namespaces/probes/pods") == "403"


def test_a_kubelet_may_not_touch_another_node(cluster: EmbeddedCluster) -> None:
    inside = ["nsenter", f"--net=/run/netns/{network.node_namespace(NAME, 1)}", str(binaries.path("kubectl"))]
    own = f"--kubeconfig={cluster.node_host('node-1').kubeconfig}"
    mine = subprocess.run([*inside, own, "get", "node", "node-1"], capture_output=True, text=True, check=False)
    other = subprocess.run([*inside, own, "get", "node", "node-2"], capture_output=True, text=True, check=False)
    assert mine.returncode == 0
    assert "only its own Node object" in other.stderr


def test_a_shared_volume_is_written_on_one_node_and_read_on_the_other(cluster: EmbeddedCluster) -> None:
    first, second = cluster.nodes
    assert ask(cluster, first, "write", path="/shared/note", text="from the first") == "written"
    assert ask(cluster, second, "read", path="/shared/note") == "from the first"


def test_an_image_loaded_later_runs_under_the_name_it_was_given(cluster: EmbeddedCluster) -> None:
    cluster.load_image(scratch_image.archive("probe", PROBE), "localhost/renamed:2")
    for node in cluster.nodes:
        pod = probe(node)
        pod["metadata"] = {"name": f"renamed-{node}", "namespace": "probes"}
        pod["spec"] = {"nodeName": node, "containers": [{"name": "c", "image": "localhost/renamed:2"}]}
        cluster.kubectl("apply", "-f", "-", stdin=json.dumps(pod))
    names = [f"pod/renamed-{node}" for node in cluster.nodes]
    cluster.kubectl("wait", "-n", "probes", "--for=condition=Ready", *names, "--timeout=60s")
    cluster.kubectl("delete", "-n", "probes", "--wait=false", *names)


def test_any_kubeconfig_gives_the_same_interface(cluster: EmbeddedCluster) -> None:
    foreign = providers.attach("existing", "foreign", kubeconfig=cluster.kubeconfig)
    assert isinstance(foreign, Cluster)
    assert foreign.nodes == cluster.nodes
    assert providers.problems(foreign) == []
    with pytest.raises(ClusterError, match="push it to a registry"):
        foreign.load_image(scratch_image.archive("probe", PROBE), PROBE)
    foreign.down()
    assert cluster.problems() == []


def test_the_restricted_pod_security_standard_is_enforced_where_asked(cluster: EmbeddedCluster) -> None:
    cluster.kubectl("create", "namespace", "strict")
    cluster.kubectl("label", "namespace", "strict", "pod-security.kubernetes.io/enforce=restricted")
    with pytest.raises(ClusterError, match="violates PodSecurity"):
        cluster.kubectl("run", "-n", "strict", "loose", f"--image={PROBE}")


def test_logs_and_exec_reach_the_kubelet(cluster: EmbeddedCluster) -> None:
    assert cluster.kubectl("logs", "-n", "probes", "on-node-1") == ""
    with pytest.raises(ClusterError, match=r"(?i)no such file"):
        cluster.kubectl("exec", "-n", "probes", "on-node-1", "--", "/none")


@pytest.mark.usefixtures("cluster")
def test_there_is_no_way_out_of_the_cluster() -> None:
    inside = ["nsenter", f"--net=/run/netns/{network.control_namespace(NAME)}", "ip", "-o", "link"]
    links = subprocess.run(inside, capture_output=True, text=True, check=True).stdout.splitlines()
    assert sorted(line.split()[1].split("@")[0].rstrip(":") for line in links) == ["br0", "cable1", "cable2", "lo"]


def test_the_audit_log_tells_who_asked(cluster: EmbeddedCluster) -> None:
    mark = cluster.audit.mark()
    cluster.kubectl("get", "pods", "-n", "probes")
    assert cluster.audit.count(mark, user_agent="kubectl")["list pods"] == 1


def test_a_cut_node_is_noticed_and_comes_back(cluster: EmbeddedCluster) -> None:
    cluster.disconnect_node("node-2")
    wait_until(lambda: not ready(cluster, "node-2"), 40)
    cluster.reconnect_node("node-2")
    wait_until(lambda: ready(cluster, "node-2"), 40)
    cluster.kubectl("wait", "-n", "probes", "--for=condition=Ready", "pod", "--all", "--timeout=60s")
    wait_until(lambda: len(ask(cluster, "node-1", "lookup", name="all").split()) == 2, 20)
    assert ask(cluster, "node-1", "dial", address="on-node-2.all:8080") == "open"


def test_a_stopped_node_boots_again_and_runs_its_pods(cluster: EmbeddedCluster) -> None:
    cluster.stop_node("node-2")
    wait_until(lambda: not ready(cluster, "node-2"), 40)
    cluster.start_node("node-2")
    wait_until(lambda: ready(cluster, "node-2"), 60)
    cluster.kubectl("wait", "-n", "probes", "--for=condition=Ready", "pod", "--all", "--timeout=90s")
    assert ask(cluster, "node-2", "read", path="/shared/note") == "from the first"


def test_a_dead_kubelet_leaves_its_containers_running(cluster: EmbeddedCluster) -> None:
    cluster.stop_process("node-1", "kubelet")
    assert ask(cluster, "node-1", "read", path="/shared/note") == "from the first"
    assert any("kubelet on node-1" in problem for problem in cluster.problems())
    cluster.start_process("node-1", "kubelet")
    wait_until(lambda: not cluster.problems(), 20)


def test_a_second_up_finds_the_running_cluster(cluster: EmbeddedCluster) -> None:
    assert embedded.up(NAME).record == cluster.record
    with pytest.raises(ClusterError, match="runs already, with 2 nodes"):
        embedded.up(NAME, nodes=3)


def test_a_busy_port_is_named_and_nothing_is_left() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ClusterError, match=f"Port {port} of 127.0.0.1 cannot be used"):
            embedded.up("busy", port=port)
    assert remains("busy") == []


@pytest.mark.parametrize("seconds", [0.4, 0.8, 1.5, 3.0, 4.5])
def test_a_creator_killed_at_any_moment_leaves_nothing_that_down_does_not_find(seconds: float) -> None:
    command = [sys.executable, "-m", "e2e.cluster", "--name", "killed", "up"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as creator:
        time.sleep(seconds)
        creator.send_signal(signal.SIGKILL)
    embedded.down("killed")
    assert remains("killed") == []


IN_ANOTHER_MOUNT_NAMESPACE = """
from e2e.cluster import network
from e2e.cluster.machine import Machine, start_namespaced
from e2e.cluster.record import Record

plan = Record("hidden", 1, 1)
plan.write()
network.build(plan.name, 0)
control = Machine("control", plan.directory / "control")
start_namespaced(control, network.control_namespace(plan.name))
control.start("writer", "sh", "-c", f"n=0; while :; do n=$((n+1)); : > {control.directory}/$n; done")
"""


def test_a_cluster_whose_network_has_no_name_here_is_taken_away_too() -> None:
    command = ["unshare", "--mount", "--propagation", "private", sys.executable, "-c", IN_ANOTHER_MOUNT_NAMESPACE]
    subprocess.run(command, check=True)
    assert remains("hidden") != []
    embedded.down("hidden")
    assert remains("hidden") == []


def test_what_a_crash_left_is_removed_by_the_next_up() -> None:
    first = embedded.up("again", nodes=1)
    pid = first.control.init_pid()
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    second = embedded.up("again", nodes=1)
    try:
        assert second.problems() == []
    finally:
        second.down()
    assert remains("again") == []


def test_down_leaves_nothing(cluster: EmbeddedCluster) -> None:
    cluster.down()
    cluster.down()
    assert remains(NAME) == []
