"""A real Kubernetes cluster inside this machine: one control plane, N nodes.

Each is a machine of its own (processes, mounts, network); see README.md beside this file.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from e2e.cluster import (
    bootstrap,
    cgroups,
    control_plane,
    images_on_nodes,
    locks,
    machine,
    network,
    node,
    paths,
    prerequisites,
    record,
    unpacked_images,
    volumes,
)
from e2e.cluster.api_client import ApiClient
from e2e.cluster.audit import AuditLog
from e2e.cluster.interface import ClusterError, ServerPlace
from e2e.cluster.machine import Machine
from e2e.cluster.node import NodeHost
from e2e.cluster.progress import phase, print_line
from e2e.cluster.record import Record
from e2e.cluster.wait import wait_until

GIB_STATE = 2.0
"""Room for logs, etcd and the writable layers of containers."""

UNPACKED = 2.5
"""Disk space of an image as a multiple of its archive: its content, and somewhat more unpacked."""

READY_LIMIT = 120.0


@dataclass(frozen=True)
class EmbeddedCluster:
    """A cluster that runs on this machine; implements `Cluster` and `NodeFaults`."""

    record: Record
    host: prerequisites.Host

    @property
    def name(self) -> str:
        """Return the name that `up` was given."""
        return self.record.name

    @property
    def directory(self) -> Path:
        """Return the directory of all state: logs, keys, volumes."""
        return self.record.directory

    @property
    def kubeconfig(self) -> Path:
        """Return the kubeconfig for this machine's processes, through the loopback port."""
        return self.directory / "kubeconfig"

    @property
    def inside_kubeconfig(self) -> Path:
        """Return the kubeconfig for processes inside the cluster's network namespaces."""
        return self.directory / "inside.kubeconfig"

    @property
    def nodes(self) -> tuple[str, ...]:
        """Return the nodes' names: `node-1`, `node-2`, ..."""
        return tuple(f"node-{index}" for index in range(1, self.record.nodes + 1))

    @property
    def server_place(self) -> ServerPlace:
        """Return the control plane's place on the bridge."""
        inside = f"--net={network.NAMED / network.control_namespace(self.name)}"
        return ServerPlace(network.CONTROL_ADDRESS, ("nsenter", inside))

    @property
    def audit(self) -> AuditLog:
        """Return the log of every request that the API server served."""
        return AuditLog(self.directory / "control" / "audit.log")

    @property
    def unready_seconds(self) -> float:
        """Return the seconds of silence after which a node is not ready."""
        return bootstrap.LOST_AFTER_SECONDS

    @cached_property
    def api(self) -> ApiClient:
        """Return a client with administrator's rights."""
        return ApiClient(self.kubeconfig)

    @property
    def control(self) -> Machine:
        """Return the control plane's machine."""
        return Machine("control", self.directory / "control")

    def machine(self, name: str) -> Machine:
        """Return a node's machine."""
        return Machine(name, self.node_host(name).directory)

    def node_host(self, name: str) -> NodeHost:
        """Return a node's description; ClusterError for a name that is none of `nodes`."""
        if name not in self.nodes:
            raise ClusterError(f"{name!r} is not a node of cluster {self.name}: its nodes are {', '.join(self.nodes)}.")
        directory = self.directory / name
        return NodeHost(
            name=name,
            place=network.NodeAddress(self.nodes.index(name) + 1),
            directory=directory,
            cgroup=cgroups.name(self.name, name),
            plugins=self.host.plugins,
            snapshotter=(self.directory / "snapshotter").read_text(),
            may_lower_oom_score=self.host.may_lower_oom_score,
        )

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Run kubectl as administrator; returns its standard output."""
        return control_plane.kubectl(self.kubeconfig, *arguments, stdin=stdin, cache=self.directory / "kubectl-cache")

    def load_image(self, archive: Path, ref: str) -> None:
        """Import the image into all nodes in parallel; skips nodes that have it already."""
        with phase(f"load {ref} into {len(self.nodes)} nodes"), ThreadPoolExecutor() as pool:
            list(pool.map(lambda name: images_on_nodes.load(self.node_host(name), archive, ref), self.nodes))

    def shared_volume(self, namespace: str, name: str) -> Path:
        """Create a bound ReadWriteMany claim over a directory of this machine, open to any user id."""
        place = self.directory / "volumes" / f"{namespace}-{name}"
        place.mkdir(parents=True, exist_ok=True)
        os.chown(place, volumes.TRAINER_UID, volumes.TRAINER_UID)
        place.chmod(volumes.MODE)
        volume = volumes.volume(namespace, name, place)
        claim = volumes.claim(namespace, name, bound_to=volume["metadata"]["name"])
        bind(self.api, volume, claim)
        return place

    def stop_node(self, node: str) -> None:
        """Cut the power of a node: everything on it ends at once."""
        self.machine(node).cut_power()
        cgroups.remove(self.node_host(node).cgroup)

    def start_node(self, node: str) -> None:
        """Boot a stopped node; its disk is kept."""
        bootstrap.boot_node(self.name, self.node_host(node), self.machine(node))
        bootstrap.start_kubelet(self.node_host(node), self.machine(node))

    def disconnect_node(self, node: str) -> None:
        """Take a node's network link down."""
        network.set_link(self.name, self.node_host(node).place.index, "down")

    def reconnect_node(self, node: str) -> None:
        """Bring the link up again."""
        network.set_link(self.name, self.node_host(node).place.index, "up")

    def stop_process(self, node: str, process: str) -> None:
        """Kill one process of a node; its containers keep running."""
        self.machine(node).stop(process)

    def start_process(self, node: str, process: str) -> None:
        """Restart a stopped process of a node."""
        bootstrap.start_process(self.node_host(node), self.machine(node), process)

    def problems(self) -> list[str]:
        """Return a sentence for each thing that does not run; empty when all is well."""
        found = []
        for host in (self.control, *map(self.machine, self.nodes)):
            status = host.status()
            if not status:
                found.append(f"Machine {host.name} is down.")
            found += [
                f"{process} on {host.name} ended with {code}." for process, code in status.items() if code is not None
            ]
        if not found and not self.api.ready():
            found.append("The API server is not ready.")
        return found

    def down(self) -> None:
        """Remove everything. Idempotent."""
        down(self.name)


def up(
    name: str = "dtj", *, nodes: int = 2, port: int = 0, images: Mapping[str, Path] | None = None
) -> EmbeddedCluster:
    """Start a cluster, or use the running one; `port` 0 picks a free loopback port.

    Its nodes start with `images` (ref to archive), which is faster than loading
    them later: unpacked once, they are cached and linked into every node. What a
    crashed run left under this name is removed first. Raises ClusterError with a
    sentence, and leaves nothing, where it cannot be started.
    """
    host = prerequisites.require()
    home = record.directory(name)
    record.require_own_root()
    if not 1 <= nodes <= bootstrap.MOST_NODES:
        raise ClusterError(f"{nodes} nodes were asked for: choose 1 to {bootstrap.MOST_NODES}.")
    programs = bootstrap.programs()
    with locks.held(record.lock(name), f"another run that starts or removes cluster {name}", limit=300):
        if running := _running(name, host, nodes):
            for ref, archive in (images or {}).items():
                running.load_image(archive, ref)
            return running
        _require_space(home, images or {})
        with listening(port) as host_port:
            plan = Record(name, nodes, host_port.getsockname()[1])
            cluster = EmbeddedCluster(plan, host)
            began = time.monotonic()
            try:
                plan.write()
                _start(cluster, programs, host_port, images or {})
            except BaseException:
                _remove(name)
                raise
    print_line(f"Cluster {name} is up after {time.monotonic() - began:.1f} s: export KUBECONFIG={cluster.kubeconfig}")
    return cluster


def attach(name: str = "dtj") -> EmbeddedCluster:
    """Return the running cluster of that name; ClusterError where there is none."""
    found = record.read(name)
    if found is None:
        raise ClusterError(f"No cluster {name} runs on this machine: start it with `python -m e2e.cluster up`.")
    return EmbeddedCluster(found, prerequisites.require())


def down(name: str = "dtj") -> None:
    """Remove the cluster with everything that was created for it, in whatever state it is. Idempotent."""
    home = record.directory(name)
    if not home.exists() and not network.namespaces(name):
        return
    if problem := prerequisites.unsupported_reason():
        raise ClusterError(problem)
    with locks.held(record.lock(name), f"another run that starts or removes cluster {name}", limit=300):
        _remove(name)


def _running(name: str, host: prerequisites.Host, nodes: int) -> EmbeddedCluster | None:
    """Return the cluster if it runs well; otherwise remove what is left of it."""
    found = record.read(name)
    if found is None:
        if record.directory(name).exists() or network.namespaces(name):
            print_line(f"Removing what an earlier run left of cluster {name}.")
            _remove(name)
        return None
    try:
        problems = EmbeddedCluster(found, host).problems()
    except (OSError, ClusterError) as error:
        problems = [f"It cannot be read ({error})."]
    if problems:
        print_line(f"Removing what an earlier run left of cluster {name}: {problems[0]}")
        _remove(name)
        return None
    if found.nodes != nodes:
        raise ClusterError(
            f"Cluster {name} runs already, with {found.nodes} nodes: take it down first "
            f"(python -m e2e.cluster down --name {name}), or choose another name."
        )
    print_line(f"Cluster {name} runs already: export KUBECONFIG={EmbeddedCluster(found, host).kubeconfig}")
    return EmbeddedCluster(found, host)


def _require_space(home: Path, images: Mapping[str, Path]) -> None:
    """Check the disk space: the cache and the nodes share the unpacked images by hard links."""
    gib = sum(archive.stat().st_size for archive in images.values()) / 2**30
    paths.require_space({home: GIB_STATE, paths.cache(): gib * UNPACKED}, "Starting the cluster")


def _start(
    cluster: EmbeddedCluster, programs: dict[str, Path], host_port: socket.socket, images: Mapping[str, Path]
) -> None:
    with phase("network and machines"):
        network.build(cluster.name, cluster.record.nodes)
        (cluster.directory / "snapshotter").write_text(bootstrap.snapshotter(cluster.directory))
        keys = bootstrap.keys(cluster.directory, cluster.record.port, cluster.nodes)
        machine.start_namespaced(cluster.control, network.control_namespace(cluster.name), keep=(host_port.fileno(),))
    bootstrap.start_server(cluster.control, programs, keys, host_port.fileno())
    for name in cluster.nodes:
        bootstrap.prepare_node(cluster.node_host(name), keys)
    _give_images(cluster, {node.PAUSE: bootstrap.pause_image(), **images})
    with phase("control plane"):
        control_plane.wait_ready(cluster.api, cluster.control)
        bootstrap.grant(cluster.api)
        bootstrap.start_controllers(cluster.control, programs, keys)
    with phase(f"{cluster.record.nodes} nodes"):
        for name in cluster.nodes:
            bootstrap.start_kubelet(cluster.node_host(name), cluster.machine(name))
        wait_until(lambda: _all_ready(cluster), READY_LIMIT, lambda: _unready(cluster), 0.1)
    with phase("cluster DNS"):
        bootstrap.wait_dns(cluster.name, cluster.control)


def _give_images(cluster: EmbeddedCluster, images: Mapping[str, Path]) -> None:
    """Boot every node with `images`: from the cache, which the first node fills where they are missing."""
    hosts = [cluster.node_host(name) for name in cluster.nodes]
    place = unpacked_images.cache_path(images, hosts[0].snapshotter)
    if not place.exists():
        first = cluster.machine(hosts[0].name)
        bootstrap.boot_node(cluster.name, hosts[0], first)
        for ref, archive in images.items():
            with phase(f"unpack {ref}"):
                images_on_nodes.load(hosts[0], archive, ref)
        first.stop("containerd")
        unpacked_images.save(hosts[0], place)
        bootstrap.start_containerd(hosts[0], first)
        hosts = hosts[1:]
    with phase(f"machines of {len(hosts)} nodes"):
        for host in hosts:
            unpacked_images.restore(place, host)
            bootstrap.boot_node(cluster.name, host, cluster.machine(host.name))


def _all_ready(cluster: EmbeddedCluster) -> bool:
    for host in (cluster.control, *map(cluster.machine, cluster.nodes)):
        host.require_running()
    found = cluster.api.get("/api/v1/nodes")["items"]
    ready = [
        item["metadata"]["name"]
        for item in found
        if any(entry["type"] == "Ready" and entry["status"] == "True" for entry in item["status"].get("conditions", []))
        and not item["spec"].get("taints")
    ]
    accounts = cluster.api.get("/api/v1/namespaces/default/serviceaccounts")["items"]
    return sorted(ready) == sorted(cluster.nodes) and bool(accounts)


def _unready(cluster: EmbeddedCluster) -> str:
    words = "; ".join(
        f"{name}: {machine.last_log_line(cluster.machine(name).log('kubelet'))}" for name in cluster.nodes
    )
    return f"The nodes are not ready after {READY_LIMIT:.0f} s. The kubelets' last log lines: {words}"


@contextlib.contextmanager
def listening(port: int) -> Iterator[socket.socket]:
    """Yield the loopback socket that clients of this machine connect to."""
    with socket.socket() as host_port:
        host_port.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            host_port.bind(("127.0.0.1", port))
        except OSError as error:
            raise ClusterError(
                f"Port {port} of 127.0.0.1 cannot be used ({error.strerror}): choose another with --port, "
                "or leave it out to get a free one."
            ) from None
        host_port.listen(256)
        yield host_port


def _remove(name: str) -> None:
    home = record.directory(name)
    with phase(f"remove cluster {name}"):
        for control in sorted(home.glob("*/control.sock")):
            Machine(control.parent.name, control.parent).cut_power()
        network.remove(name)
        cgroups.remove(f"dtj-{name}-")
        _unmount_below(home)
        bootstrap.forget_mount_points(name)
        if home.exists():
            _remove_tree(home)
            with contextlib.suppress(OSError):
                home.parent.rmdir()


def _remove_tree(home: Path) -> None:
    try:
        shutil.rmtree(home)
    except OSError as error:
        raise ClusterError(
            f"{home} cannot be removed ({error.filename}: {error.strerror}): end the processes that still use it, "
            "then run down again."
        ) from None


def _unmount_below(home: Path) -> None:
    """None are expected: machines mount in namespaces of their own."""
    mounts = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    for place in sorted((mount for mount in mounts if mount.startswith(f"{home}/")), reverse=True):
        subprocess.run(["umount", "-l", place], check=False, capture_output=True)


def bind(api: ApiClient, volume: dict[str, object], claim: dict[str, dict[str, str]]) -> None:
    """Make namespace, volume and claim, and wait until the claim is bound."""
    namespace, name = claim["metadata"]["namespace"], claim["metadata"]["name"]
    api.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
    api.create("/api/v1/persistentvolumes", volume)
    claims = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"
    api.create(claims, claim)
    wait_until(
        lambda: api.get(f"{claims}/{name}")["status"].get("phase") == "Bound",
        30,
        lambda: f"Claim {name} in namespace {namespace} is not bound after 30 s: see kubectl describe pvc {name}.",
        0.1,
    )
