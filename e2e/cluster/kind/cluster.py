"""A cluster of kind: its nodes are docker containers."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2e.cluster import binaries, control_plane, embedded, images_on_nodes, paths, volumes
from e2e.cluster.api_client import ApiClient
from e2e.cluster.audit import POLICY, AuditLog
from e2e.cluster.interface import ClusterError, ServerPlace
from e2e.cluster.kind import docker as dockers
from e2e.cluster.kind import docker_daemon, node_image
from e2e.cluster.kind.docker import Docker
from e2e.cluster.kind.docker_daemon import DockerDaemon
from e2e.cluster.progress import phase, print_line
from e2e.cluster.wait import wait_until

SHARED = "/var/lib/dtj-shared"
"""Where every node container sees the directory of shared volumes."""
AUDIT = "/etc/kubernetes/audit"
"""Where the control plane's container sees the directory of the audit log and its policy."""
_AUDITING = {
    "kind": "ClusterConfiguration",
    "apiServer": {
        "extraArgs": {
            "audit-policy-file": f"{AUDIT}/policy.json",
            "audit-log-path": f"{AUDIT}/audit.log",
            "audit-log-mode": "blocking",
        },
        "extraVolumes": [{"name": "audit", "hostPath": AUDIT, "mountPath": AUDIT, "pathType": "Directory"}],
    },
}
"""Merged by kind into kubeadm's configuration."""
NODE_IMAGE = "DTJ_KIND_NODE_IMAGE"
"""Names the image of the nodes, where it is not to be kind's own."""
READY_LIMIT = 120.0
UNREADY_SECONDS = 51.0
"""Kubernetes' default of 50 s, and the second in which it is noticed."""


@dataclass(frozen=True)
class KindCluster:
    """A cluster of kind, with one control-plane node and workers; implements `Cluster` and `NodeFaults`."""

    name: str
    docker: Docker

    @property
    def directory(self) -> Path:
        """Return the directory of its state: kubeconfig and shared volumes."""
        return _directory(self.name)

    @property
    def kubeconfig(self) -> Path:
        """Return the kubeconfig that kind wrote."""
        return self.directory / "kubeconfig"

    @property
    def nodes(self) -> tuple[str, ...]:
        """Return the names of the nodes that accept pods."""
        found = json.loads(self.kubectl("get", "nodes", "-o", "json"))["items"]
        return tuple(item["metadata"]["name"] for item in found if not item["spec"].get("taints"))

    @property
    def unready_seconds(self) -> float:
        """Return the seconds of silence after which a node is not ready."""
        return UNREADY_SECONDS

    @property
    def server_place(self) -> ServerPlace:
        """Return the end of docker's bridge on this machine."""
        listed = self.docker.run("network", "inspect", "kind", "--format", "{{json .IPAM.Config}}")
        gateway = next(one["Gateway"] for one in json.loads(listed) if "." in one.get("Gateway", ""))
        return ServerPlace(gateway, self.docker.enter)

    @property
    def audit(self) -> AuditLog:
        """Return the log of every request that the API server served."""
        return AuditLog(self.directory / "audit" / "audit.log")

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Run kubectl as administrator."""
        return control_plane.kubectl(self.kubeconfig, *arguments, stdin=stdin)

    def kind(self, *arguments: str, stdin: str | None = None) -> str:
        """Run kind against this cluster's docker."""
        return _kind(self.docker, *arguments, stdin=stdin)

    def load_image(self, archive: Path, ref: str) -> None:
        """Load the image into every node that runs pods, and tag it with `ref` where the archive has another name."""
        images_on_nodes.identity(archive)
        with phase(f"load {ref} into kind"):
            nodes = self.nodes
            self.kind("load", "image-archive", str(archive), "--name", self.name, "--nodes", ",".join(nodes))
            for container in nodes:
                self._tag(container, archive, ref)

    def _tag(self, container: str, archive: Path, ref: str) -> None:
        within = ["exec", "--interactive", container, "ctr", "--namespace=k8s.io", "images"]
        if ref in self.docker.run(*within, "ls", "-q").split():
            return
        with archive.open("rb") as content:
            output = self.docker.run(*within, "import", "-", stdin=content)
        names = images_on_nodes.UNPACKED.findall(output)
        if not names:
            raise ClusterError(f"{archive} gave kind's node {container} no image: {output.strip() or 'no output'}")
        self.docker.run(*within, "tag", "--force", names[0], ref)

    def shared_volume(self, namespace: str, name: str) -> Path:
        """Create a bound ReadWriteMany claim over a directory that all node containers share."""
        folder = f"{namespace}-{name}"
        place = self.directory / "volumes" / folder
        place.mkdir(parents=True, exist_ok=True)
        place.chmod(volumes.MODE)
        api = ApiClient(self.kubeconfig)
        api.create("/apis/storage.k8s.io/v1/storageclasses", volumes.storage_class())
        volume = volumes.volume(namespace, name, Path(SHARED) / folder)
        embedded.bind(api, volume, volumes.claim(namespace, name, bound_to=volume["metadata"]["name"]))
        return place

    def stop_node(self, node: str) -> None:
        """Kill the node's container: everything on it ends at once."""
        self.docker.run("kill", node)

    def start_node(self, node: str) -> None:
        """Start the container of a stopped node again; its disk is kept."""
        self.docker.run("start", node)

    def disconnect_node(self, node: str) -> None:
        """Freeze all processes of the node, so that it answers nobody any more."""
        self.docker.run("pause", node)

    def reconnect_node(self, node: str) -> None:
        """Let a frozen node go on."""
        self.docker.run("unpause", node)

    def stop_process(self, node: str, process: str) -> None:
        """Stop a service of the node, `kubelet` or `containerd`; its containers keep running."""
        self.docker.run("exec", node, "systemctl", "stop", process)

    def start_process(self, node: str, process: str) -> None:
        """Start it again."""
        self.docker.run("exec", node, "systemctl", "start", process)

    def down(self) -> None:
        """Delete the cluster, and the docker that was started for it. Idempotent."""
        daemon = _daemon(self.name)
        if not daemon.runs():
            daemon.stop()
            if dockers.installed():
                self.kind("delete", "cluster", "--name", self.name)
        else:
            with phase(f"remove kind cluster {self.name}"):
                self.kind("delete", "cluster", "--name", self.name)
                daemon.stop()
        shutil.rmtree(self.directory, ignore_errors=True)


def up(name: str = "dtj", *, nodes: int = 2, port: int = 0, image: str | None = None) -> KindCluster:
    """Start a kind cluster, or use the running one. Raises ClusterError with a sentence, and leaves nothing.

    `image` names the image of its nodes; by default it is DTJ_KIND_NODE_IMAGE, else kind's own, which docker pulls, or
    one that is made here where docker is started here.
    """
    require_docker()
    image = image or os.environ.get(NODE_IMAGE)
    paths.require_writable(_directory(name) / "volumes")
    if (docker := dockers.installed()) and not _daemon(name).runs():
        return _up(KindCluster(name, docker), nodes, port, image)
    with docker_daemon.exclusively():
        return _up_with_daemon(name, nodes, port, image)


def _up_with_daemon(name: str, nodes: int, port: int, image: str | None) -> KindCluster:
    daemon = _daemon(name)
    cluster = KindCluster(name, daemon.docker)
    if daemon.runs():
        return _up(cluster, nodes, port, image)
    daemon.stop()  # what a crash left
    for other in sorted(paths.state_root().glob("kind-*/docker")):
        running = other.parent.name.removeprefix("kind-")
        if _daemon(running).runs():
            raise ClusterError(
                f"Docker was started for cluster {running} already: take that one down first "
                f"(python -m e2e.cluster --provider kind down --name {running}), or use it."
            )
    daemon.start()
    try:
        for leftover in cluster.kind("get", "clusters").split():
            cluster.kind("delete", "cluster", "--name", leftover)
        made = image or node_image.ensure(daemon.docker)
        with embedded.listening(port) as host_port:
            port = host_port.getsockname()[1]
            daemon.forward(host_port, port)
        return _up(cluster, nodes, port, made)
    except BaseException:
        cluster.down()
        raise


def _up(cluster: KindCluster, nodes: int, port: int, image: str | None) -> KindCluster:
    if cluster.name in cluster.kind("get", "clusters").split():
        _require_ready_nodes(cluster, nodes)
        print_line(f"Cluster {cluster.name} runs already: export KUBECONFIG={cluster.kubeconfig}")
        return cluster
    audit = cluster.directory / "audit"
    audit.mkdir(exist_ok=True)
    (audit / "policy.json").write_text(json.dumps(POLICY))
    try:
        with phase(f"kind cluster with {nodes} nodes"):
            settings = json.dumps(configuration(nodes, port, cluster.directory))
            chosen = ["--image", image] if image else []
            cluster.kind("create", "cluster", "--name", cluster.name, "--wait", "180s", *chosen,
                         "--kubeconfig", str(cluster.kubeconfig), "--config", "-", stdin=settings)  # fmt: skip
            wait_until(lambda: len(cluster.nodes) == nodes, READY_LIMIT, lambda: _unready(cluster, nodes), 0.2)
    except BaseException:
        cluster.down()
        raise
    print_line(f"Cluster {cluster.name} is up: export KUBECONFIG={cluster.kubeconfig}")
    return cluster


def _require_ready_nodes(cluster: KindCluster, nodes: int) -> None:
    """Raise ClusterError unless `nodes` nodes are ready; those that are not have a taint."""
    try:
        if not cluster.kubeconfig.exists():
            cluster.kind("export", "kubeconfig", "--name", cluster.name, "--kubeconfig", str(cluster.kubeconfig))
        ready = len(cluster.nodes)
        problem = "" if ready == nodes else f"{ready} of its nodes take pods, and {nodes} were asked for"
    except ClusterError as error:
        problem = f"it does not answer ({error})"
    if problem:
        raise ClusterError(
            f"kind runs cluster {cluster.name} already, but {problem}: take it down first "
            f"(python -m e2e.cluster --provider kind down --name {cluster.name}), or choose another name."
        )


def _unready(cluster: KindCluster, nodes: int) -> str:
    return (
        f"{len(cluster.nodes)} of the {nodes} nodes of kind cluster {cluster.name} take pods after {READY_LIMIT:.0f} s:"
        " run the same command again."
    )


def attach(name: str = "dtj") -> KindCluster:
    """Return the running kind cluster of that name."""
    daemon = _daemon(name)
    docker = daemon.docker if daemon.runs() else dockers.installed()
    if docker is None or name not in _kind(docker, "get", "clusters").split():
        raise ClusterError(f"kind runs no cluster {name}: start it with `python -m e2e.cluster --provider kind up`.")
    return KindCluster(name, docker)


def configuration(nodes: int, port: int, directory: Path) -> dict[str, Any]:
    """Return kind's configuration: a control plane that writes an audit log, and workers that share a directory."""
    shared = [{"hostPath": str(directory / "volumes"), "containerPath": SHARED}]
    audited = [{"hostPath": str(directory / "audit"), "containerPath": AUDIT}]
    control_plane = {"role": "control-plane", "extraMounts": audited, "kubeadmConfigPatches": [json.dumps(_AUDITING)]}
    return {
        "kind": "Cluster",
        "apiVersion": "kind.x-k8s.io/v1alpha4",
        "networking": {"apiServerAddress": "127.0.0.1", "apiServerPort": port},
        "nodes": [control_plane, *({"role": "worker", "extraMounts": shared} for _ in range(nodes))],
    }


def require_docker() -> None:
    """Raise ClusterError where docker neither runs nor can be started here."""
    if dockers.installed() is None and (problem := docker_daemon.unsupported_reason()):
        raise ClusterError(
            f"--provider kind needs a running docker, and {problem}: install and start Docker Engine, or use "
            "--provider embedded."
        )


def programs() -> tuple[str, ...]:
    """Return the names of the programs that are built for it: those in its nodes only where docker cannot pull them."""
    kind = () if shutil.which("kind") else ("kind",)
    if dockers.installed() or os.environ.get(NODE_IMAGE):
        return ("kubectl", *kind)
    return (*node_image.PROGRAMS, "kind")


def _kind(docker: Docker, *arguments: str, stdin: str | None = None) -> str:
    program = shutil.which("kind") or str(binaries.path("kind"))
    quiet = Docker({**docker.environment, "KIND_EXPERIMENTAL_PROVIDER": "docker"}, docker.network)
    return quiet.client(program, *arguments, stdin=stdin)


def _daemon(name: str) -> DockerDaemon:
    return DockerDaemon(name, _directory(name) / "docker")


def _directory(name: str) -> Path:
    return paths.state_root() / f"kind-{name}"
