"""kind: a cluster in docker containers, where docker runs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2e.cluster import control_plane, embedded, images_on_nodes, paths, volumes
from e2e.cluster.api_client import ApiClient
from e2e.cluster.audit import AuditLog
from e2e.cluster.interface import ClusterError
from e2e.cluster.progress import phase, print_line

SHARED = "/var/lib/dtj-shared"
"""Where every node container sees the directory of shared volumes."""


@dataclass(frozen=True)
class KindCluster:
    """A cluster of kind, with one control-plane node and workers."""

    name: str

    @property
    def directory(self) -> Path:
        """Return the directory of its state: kubeconfig and shared volumes."""
        return paths.state_root() / f"kind-{self.name}"

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
    def audit(self) -> AuditLog | None:
        """Return None: kind's API server writes no audit log."""
        return None

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Run kubectl as administrator."""
        return control_plane.kubectl(self.kubeconfig, *arguments, stdin=stdin)

    def load_image(self, archive: Path, ref: str) -> None:
        """Load the image into every node, and tag it with `ref` where the archive has another name."""
        images_on_nodes.identity(archive)
        with phase(f"load {ref} into kind"):
            _kind("load", "image-archive", str(archive), "--name", self.name)
            for container in _kind("get", "nodes", "--name", self.name).split():
                self._tag(container, archive, ref)

    def _tag(self, container: str, archive: Path, ref: str) -> None:
        within = ["docker", "exec", "-i", container, "ctr", "--namespace=k8s.io", "images"]
        listed = subprocess.run([*within, "ls", "-q"], capture_output=True, text=True, check=True).stdout.split()
        if ref in listed:
            return
        with archive.open("rb") as content:
            output = subprocess.run(
                [*within, "import", "-"], stdin=content, capture_output=True, check=True
            ).stdout.decode()
        names = images_on_nodes.UNPACKED.findall(output)
        if not names:
            raise ClusterError(f"{archive} gave kind's node {container} no image: {output.strip() or 'no output'}")
        subprocess.run([*within, "tag", "--force", names[0], ref], capture_output=True, check=True)

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

    def down(self) -> None:
        """Delete the cluster. Idempotent."""
        _kind("delete", "cluster", "--name", self.name)
        shutil.rmtree(self.directory, ignore_errors=True)


def up(name: str = "dtj", *, nodes: int = 2, port: int = 0) -> KindCluster:
    """Start a kind cluster, or use the running one. Raises ClusterError with a sentence, and leaves nothing."""
    require_docker()
    cluster = KindCluster(name)
    if name in _kind("get", "clusters").split():
        _require_ready_nodes(cluster, nodes)
        print_line(f"Cluster {name} runs already: export KUBECONFIG={cluster.kubeconfig}")
        return cluster
    shared = cluster.directory / "volumes"
    try:
        paths.require_writable(shared)
        with phase(f"kind cluster with {nodes} nodes"):
            settings = json.dumps(configuration(nodes, port, shared))
            _kind("create", "cluster", "--name", name, "--wait", "180s", "--kubeconfig", str(cluster.kubeconfig),
                  "--config", "-", stdin=settings)  # fmt: skip
    except BaseException:
        cluster.down()
        raise
    print_line(f"Cluster {name} is up: export KUBECONFIG={cluster.kubeconfig}")
    return cluster


def _require_ready_nodes(cluster: KindCluster, nodes: int) -> None:
    """Raise ClusterError unless `nodes` nodes are ready; those that are not have a taint."""
    try:
        _kind("export", "kubeconfig", "--name", cluster.name, "--kubeconfig", str(cluster.kubeconfig))
        ready = len(cluster.nodes)
        problem = "" if ready == nodes else f"{ready} of its nodes take pods, and {nodes} were asked for"
    except ClusterError as error:
        problem = f"it does not answer ({error})"
    if problem:
        raise ClusterError(
            f"kind runs cluster {cluster.name} already, but {problem}: take it down first "
            f"(python -m e2e.cluster --provider kind down --name {cluster.name}), or choose another name."
        )


def attach(name: str = "dtj") -> KindCluster:
    """Return the running kind cluster of that name."""
    require_docker()
    if name not in _kind("get", "clusters").split():
        raise ClusterError(f"kind runs no cluster {name}: start it with `python -m e2e.cluster --provider kind up`.")
    return KindCluster(name)


def configuration(nodes: int, port: int, shared: Path) -> dict[str, Any]:
    """Return kind's configuration: one control plane, `nodes` workers, one shared directory."""
    mounts = [{"hostPath": str(shared), "containerPath": SHARED}]
    return {
        "kind": "Cluster",
        "apiVersion": "kind.x-k8s.io/v1alpha4",
        "networking": {"apiServerAddress": "127.0.0.1", "apiServerPort": port},
        "nodes": [{"role": "control-plane"}, *({"role": "worker", "extraMounts": mounts} for _ in range(nodes))],
    }


def require_docker() -> None:
    """Raise ClusterError where docker or kind cannot be used."""
    for program, source in (("docker", "install Docker Engine"), ("kind", "install it (kind.sigs.k8s.io)")):
        if not shutil.which(program):
            raise ClusterError(
                f"--provider kind needs {program}, which is not on PATH: {source}, or use --provider embedded."
            )
    done = subprocess.run(["docker", "info"], capture_output=True, text=True, check=False)
    if done.returncode:
        words = (done.stderr.strip().splitlines() or ["no answer"])[-1]
        raise ClusterError(f"--provider kind needs a running docker ({words}): start it, or use --provider embedded.")


def _kind(*arguments: str, stdin: str | None = None) -> str:
    quiet = os.environ | {"KIND_EXPERIMENTAL_PROVIDER": "docker"}
    done = subprocess.run(["kind", *arguments], input=stdin, capture_output=True, text=True, check=False, env=quiet)
    if done.returncode:
        raise ClusterError(f"`kind {' '.join(arguments)}` failed: {done.stderr.strip()}")
    return done.stdout
