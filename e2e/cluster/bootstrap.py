"""The steps that turn machines into a cluster: keys, control plane, nodes, RBAC, DNS."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster import (
    binaries,
    cgroups,
    component_commands,
    kubeconfig,
    machine,
    network,
    node,
    paths,
    record,
    scratch_image,
    volumes,
)
from e2e.cluster.api_client import ApiClient
from e2e.cluster.audit import POLICY
from e2e.cluster.machine import Machine
from e2e.cluster.node import NodeHost
from e2e.cluster.pki import Authority, Pair
from e2e.cluster.wait import wait_until

MOST_NODES = 20
LOST_AFTER_SECONDS = 16
"""node-monitor-grace-period: four missed status updates."""

STARTED_LIMIT = 30.0
FORWARD = Path(__file__).with_name("forward.py")
AT = component_commands.Endpoints(2379, 2380, 6443, network.CONTROL_ADDRESS, network.CONTROL_ADDRESS)
SERVER_NAMES = (
    "localhost", "127.0.0.1", network.CONTROL_ADDRESS, component_commands.FIRST_SERVICE,
    "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
)  # fmt: skip

MOUNT_POINTS = (Path("/var/lib/kubelet"), Path("/var/lib/cni"))
"""Fixed paths of kubelet and CNI: each node mounts directories of its own there."""


@dataclass(frozen=True)
class Keys:
    """All certificates, and the cluster's directory, which holds the kubeconfigs."""

    directory: Path
    trust: component_commands.Credentials
    nodes: dict[str, Pair]

    @property
    def authority(self) -> Path:
        """Return the authority's certificate."""
        return self.trust.authority

    def kubeconfig(self, file: str) -> Path:
        """Return a component's kubeconfig, for use inside the namespaces."""
        return self.directory / "pki" / f"{file}.kubeconfig"


def programs() -> dict[str, Path]:
    """Return every binary of a cluster, built now where it is missing."""
    return binaries.ensure(*binaries.CLUSTER)


def pause_image() -> Path:
    """Return the archive of the pause image."""
    return scratch_image.archive("pause", node.PAUSE)


def keys(directory: Path, port: int, nodes: tuple[str, ...]) -> Keys:
    """Issue all certificates, and write every kubeconfig."""
    issuer = Authority(directory / "pki")
    serving = {
        name: issuer.issue(
            name, f"system:node:{name}", organization="system:nodes", names=(name, network.NodeAddress(index).address)
        )
        for index, name in enumerate(nodes, 1)
    }
    trust = component_commands.Credentials(
        issuer.certificate,
        issuer.issue("apiserver", "kube-apiserver", names=SERVER_NAMES),
        issuer.service_account_keys(),
        issuer.issue("kubelet-client", "kube-apiserver-kubelet-client"),
    )
    made = Keys(directory, trust, serving)
    admin = kubeconfig.certificate_user(issuer.issue("admin", "admin", organization="system:masters"))
    kubeconfig.write(directory / "kubeconfig", f"https://127.0.0.1:{port}", issuer.certificate, admin)
    kubeconfig.write(directory / "inside.kubeconfig", AT.url, issuer.certificate, admin)
    for component in ("kube-controller-manager", "kube-scheduler", "kube-proxy", "coredns"):
        user = kubeconfig.certificate_user(issuer.issue(component, f"system:{component}"))
        kubeconfig.write(made.kubeconfig(component), AT.url, issuer.certificate, user)
    for name, pair in serving.items():
        user = kubeconfig.certificate_user(pair)
        kubeconfig.write(directory / name / "kubelet.kubeconfig", AT.url, issuer.certificate, user)
    return made


def start_server(control: Machine, found: dict[str, Path], made: Keys, listening: int) -> None:
    """Start etcd, kube-apiserver, and the port forwarding from the host's loopback."""
    policy = control.directory / "audit-policy.json"
    policy.write_text(json.dumps(POLICY))
    control.start("etcd", *component_commands.etcd(found["etcd"], AT, control.directory / "etcd"))
    server = component_commands.server(found["kube-apiserver"], AT, made.trust, policy, control.directory / "audit.log")
    control.start("kube-apiserver", *server)
    forward = (sys.executable, "-I", "-S", FORWARD, listening, AT.advertise, AT.server)
    control.start("forward", *map(str, forward), keep=(listening,))


def start_controllers(control: Machine, found: dict[str, Path], made: Keys) -> None:
    """Start kube-controller-manager, kube-scheduler and CoreDNS."""
    signing = made.trust.service_accounts.key
    config = made.kubeconfig("kube-controller-manager")
    manager = found["kube-controller-manager"]
    control.start(
        "kube-controller-manager",
        *component_commands.controllers(manager, config, made.authority, signing, LOST_AFTER_SECONDS),
    )
    control.start(
        "kube-scheduler", *component_commands.scheduler(found["kube-scheduler"], made.kubeconfig("kube-scheduler"))
    )
    corefile = control.directory / "Corefile"
    corefile.write_text(node.corefile(made.kubeconfig("coredns")))
    control.start("coredns", found["coredns"], "-conf", corefile)


def grant(api: ApiClient) -> None:
    """Rights that Kubernetes does not give by itself, and the storage class."""
    group = "/apis/rbac.authorization.k8s.io/v1"
    rules = [
        {"apiGroups": [""], "resources": ["services", "pods", "namespaces"], "verbs": ["list", "watch"]},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
    ]
    api.create(f"{group}/clusterroles", {"metadata": {"name": "system:coredns"}, "rules": rules})
    for role, user in (
        ("system:coredns", "system:coredns"),
        ("system:kubelet-api-admin", "kube-apiserver-kubelet-client"),
    ):
        binding = {
            "metadata": {"name": f"dtj:{user}"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
        }
        api.create(f"{group}/clusterrolebindings", binding)
    api.create("/apis/storage.k8s.io/v1/storageclasses", volumes.storage_class())


def prepare_node(host: NodeHost, made: Keys) -> None:
    """Write a node's configuration."""
    for part in ("cni", "kubelet", "cni-cache", "log", "opt"):
        (host.directory / part).mkdir(parents=True, exist_ok=True)
    (host.directory / "cni" / "10-dtj.conflist").write_text(node.cni(host))
    (host.directory / "containerd.toml").write_text(node.containerd(host))
    settings = node.kubelet(host, made.authority, made.nodes[host.name])
    (host.directory / "kubelet.json").write_text(json.dumps(settings))


def boot_node(cluster: str, host: NodeHost, node_machine: Machine) -> None:
    """Start a node's machine with its mounts, and containerd on it."""
    cgroups.make(host.cgroup)
    created = [place for place in MOUNT_POINTS if not place.exists()]
    for place in created:
        _made(place).touch()
        place.mkdir(parents=True)
    machine.start_namespaced(node_machine, network.node_namespace(cluster, host.place.index))
    own = host.directory
    node_machine.run(
        "sh", "-ec",
        "mount --make-rshared /; mount -t tmpfs -o mode=755 dtj /run; "
        f'mount --bind "{own}/kubelet" /var/lib/kubelet; mount --bind "{own}/cni-cache" /var/lib/cni; '
        f'mount --bind "{own}/log" /var/log',
    )  # fmt: skip
    start_containerd(host, node_machine)


def start_containerd(host: NodeHost, node_machine: Machine) -> None:
    """Start containerd on a booted node, and wait until it serves."""
    host.socket.unlink(missing_ok=True)
    start_process(host, node_machine, "containerd")
    log = node_machine.log("containerd")
    wait_until(
        host.socket.exists, STARTED_LIMIT, lambda: f"containerd did not start: {machine.last_log_line(log)}", 0.02
    )


def start_kubelet(host: NodeHost, node_machine: Machine) -> None:
    """Let a booted node join."""
    start_process(host, node_machine, "kubelet")
    start_process(host, node_machine, "kube-proxy")


def start_process(host: NodeHost, node_machine: Machine, process: str) -> None:
    """Start one of a node's three processes."""
    match process:
        case "containerd":
            command = ["containerd", "--config", str(host.directory / "containerd.toml")]
        case "kubelet":
            command = node.kubelet_command(binaries.path("kubelet"), host, host.directory / "kubelet.json")
        case "kube-proxy":
            config = host.directory.parent / "pki" / "kube-proxy.kubeconfig"
            command = node.proxy_command(binaries.path("kube-proxy"), host, config)
        case _:
            raise ValueError(f"{process!r} is not a process of a node: containerd, kubelet or kube-proxy")
    node_machine.start(process, *command)


def snapshotter(directory: Path) -> str:
    """Return `overlayfs` where it can be mounted, else `native`, which is slow but always works."""
    probe = directory / "overlay-probe"
    for part in ("lower", "upper", "work", "merged"):
        (probe / part).mkdir(parents=True, exist_ok=True)
    options = f"lowerdir={probe}/lower,upperdir={probe}/upper,workdir={probe}/work"
    script = f'mount -t overlay -o "{options}" overlay "{probe}/merged"'
    done = subprocess.run(["unshare", "--mount", "sh", "-c", script], capture_output=True, check=False)
    return "native" if done.returncode else "overlayfs"


def wait_dns(cluster: str, control: Machine) -> None:
    """Wait until CoreDNS serves the cluster's services."""
    question = (
        "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(1); "
        "s.sendto(bytes.fromhex('0001010000010000000000000a6b756265726e657465730764656661756c7403737663"
        f"07636c7573746572056c6f63616c0000010001'), ('{network.CONTROL_ADDRESS}', 53)); "
        "a = s.recv(512); raise SystemExit(a[3] & 15 or not a[7])"
    )
    inside = [
        "nsenter",
        f"--net={network.NAMED / network.control_namespace(cluster)}",
        sys.executable,
        "-I",
        "-S",
        "-c",
        question,
    ]
    wait_until(
        lambda: subprocess.run(inside, capture_output=True, check=False).returncode == 0,
        STARTED_LIMIT,
        lambda: f"CoreDNS does not know kubernetes.default: {machine.last_log_line(control.log('coredns'))}",
    )


def forget_mount_points(cluster: str) -> None:
    """Remove the mount points that were created here, once there is no other cluster.

    Removing a directory takes away what is mounted on it in any other mount namespace: the other
    cluster's kubelets would go on in this machine's own directory, all in the same one.
    """
    if any(name != cluster for name in record.recorded_clusters()):
        return
    for place in MOUNT_POINTS:
        if _made(place).exists():
            with contextlib.suppress(OSError):
                place.rmdir()
            _made(place).unlink()


def _made(place: Path) -> Path:
    """Return the marker file that says that a mount point was created here."""
    return paths.state_root() / f"made{str(place).replace('/', '.')}.lock"
