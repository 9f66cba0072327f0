"""Makes the image of kind's nodes on a machine without a registry, from Debian's packages and Go modules.

As kind's own image it holds systemd, containerd, kubeadm, kubelet, kubectl, kind's files (from its Go module), and the
images of the control plane, which are the programs of the embedded cluster. Two things that kind takes from elsewhere
are made here: the pod network and the storage class. It differs where this kind of machine asks for it: pods do not get
a lower OOM score, and the kubelet accepts control groups v1.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from e2e.cluster import binaries, debian_base, paths, scratch_image
from e2e.cluster.interface import ClusterError
from e2e.cluster.kind import image_archive
from e2e.cluster.kind.docker import Docker
from e2e.cluster.kind.image_archive import LayeredImage
from e2e.cluster.progress import phase
from e2e.cluster.toolchain import toolchain

FILES = Path(__file__).parent / "files"
CONTROL_PLANE = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
NODE = ("kubeadm", "kubelet", "kubectl")
PROGRAMS = (*CONTROL_PLANE, *NODE, "kube-proxy", "coredns")
PACKAGES = (
    "systemd", "systemd-sysv", "dbus", "containerd", "runc", "containernetworking-plugins", "iproute2", "iptables",
    "nftables", "conntrack", "ethtool", "socat", "mount", "kmod", "procps", "jq", "hostname", "curl", "rsync",
    "ca-certificates", "ebtables", "pigz",
)  # fmt: skip
NOT_NEEDED_UNITS = (
    "sysinit.target.wants/systemd-tmpfiles-setup.service", "multi-user.target.wants/*", "local-fs.target.wants/*",
    "basic.target.wants/*", "sockets.target.wants/*udev*", "sockets.target.wants/*initctl*",
)  # fmt: skip
NETWORK_COMMANDS = (
    "bash", "dash", "sh", "seq", "sleep", "cat", "grep", "mv", "rm", "mkdir", "ls", "ip", "nft", "conntrack", "curl",
    "jq", "kmod", "modprobe", "mount", "sysctl", "xtables-nft-multi", "xtables-legacy-multi",
    *(f"ip{six}tables{kind}{verb}" for six in ("", "6") for kind in ("", "-nft", "-legacy")
      for verb in ("", "-save", "-restore")),
)  # fmt: skip
"""What kube-proxy and the pod network run."""
NETWORK_IMAGE = "localhost/dtj-kind-network:1"
SPACE_GIB = 5.0
STARTED_LIMIT = 30


def ref() -> str:
    """Return the image's name, which changes with what it is made from."""
    go = toolchain(binaries.minimum_go())
    digest = hashlib.sha256(repr((PACKAGES, NOT_NEEDED_UNITS, NETWORK_COMMANDS)).encode())
    for file in (Path(__file__), *sorted(FILES.iterdir())):
        digest.update(file.read_bytes())
    for name in (*PROGRAMS, "kind"):
        digest.update(str(binaries.cached(binaries.PROGRAMS[name], go)).encode())
    return f"localhost/dtj-kind-node:{digest.hexdigest()[:12]}"


def ensure(docker: Docker) -> str:
    """Return the name of the node image in `docker`, made now where it is missing (about two minutes)."""
    name = ref()
    if docker.has_image(name):
        return name
    paths.require_space({paths.cache(): SPACE_GIB}, "The image of kind's nodes")
    programs = binaries.ensure(*PROGRAMS, "kind")
    with tempfile.TemporaryDirectory(dir=paths.cache(), prefix="kind-node-") as scratch:
        root = Path(scratch) / "root"
        with phase("Debian for kind's nodes"):
            _install(root)
        archive = Path(scratch) / "images.tar"
        with phase("images of the control plane"):
            image_archive.write(archive, _images(root, programs, Path(scratch)))
        with phase("image of kind's nodes"):
            _add_programs(root, programs)
            _import(docker, root, archive, name, Path(scratch))
    return name


def _install(root: Path) -> None:
    """Make a Debian with kind's files that systemd can boot in a container."""
    debian_base.debootstrap(root, PACKAGES, debian_base.wanted().mirror)
    source = _kind_module() / "images" / "base" / "files"
    for file in (path for path in source.rglob("*") if path.is_file()):
        target = root / file.relative_to(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)  # without its mode: Go's module cache is read-only
    for script in (*(root / "kind/bin").iterdir(), *(root / "usr/local/bin").iterdir()):
        script.chmod(0o755)
    for pattern in NOT_NEEDED_UNITS:
        for unit in (root / "lib/systemd/system").glob(pattern):
            unit.unlink()
    for unit in (root / "etc/systemd/system").glob("*.wants/*"):
        unit.unlink()
    with (root / "etc/systemd/journald.conf").open("a") as settings:
        settings.write("ReadKMsg=no\n")
    _chroot(root, "systemctl", "-q", "enable", "kubelet", "containerd", "undo-mount-hacks")
    _chroot(root, "systemctl", "-q", "mask", "systemd-binfmt")
    (root / "etc/kubernetes/manifests").mkdir(parents=True, exist_ok=True)
    plugins = root / "opt/cni/bin"
    plugins.mkdir(parents=True, exist_ok=True)
    for plugin in ("host-local", "loopback", "ptp", "portmap"):
        shutil.copy(root / "usr/lib/cni" / plugin, plugins)
    for program in ("containerd", "ctr", "containerd-shim-runc-v2"):
        (root / "usr/local/bin" / program).symlink_to(f"/usr/bin/{program}")
    hook = '.hooks.createContainer += [{path: "/kind/bin/mount-product-files.sh"}] | del(.process.rlimits)'
    specification = f"ctr oci spec | jq '{hook}' > /etc/containerd/cri-base.json"
    _chroot(root, "bash", "-c", specification)
    _replace(root / "etc/containerd/config.toml", r"(restrict_oom_score_adj = )false", r"\1true")
    _replace(root / "etc/default/kubelet", r"^(KUBELET_EXTRA_ARGS=.*)$", r"\1 --fail-cgroupv1=false")


def _images(root: Path, programs: dict[str, Path], scratch: Path) -> Iterator[LayeredImage]:
    """Yield the images that run in the nodes, under the names that kubeadm and kind ask for."""
    listed = subprocess.run(
        [programs["kubeadm"], "config", "images", "list", "--kubernetes-version", binaries.KUBERNETES],
        capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    names = {name.rpartition("/")[2].partition(":")[0]: name for name in listed}
    search_path = {"Env": ["PATH=/usr/local/bin:/usr/sbin:/usr/bin"]}

    def layer(program: str, path: str) -> Path:
        return image_archive.pack_files({path: programs[program]}, scratch / f"{program}.tar")

    network = _network_layer(root, scratch)
    yield LayeredImage(NETWORK_IMAGE, (network,), search_path)
    for program in CONTROL_PLANE:
        yield LayeredImage(names[program], (layer(program, f"/usr/local/bin/{program}"),), search_path)
    proxy = layer("kube-proxy", "/usr/local/bin/kube-proxy")
    yield LayeredImage(names["kube-proxy"], (network, proxy), search_path)
    yield LayeredImage(names["coredns"], (layer("coredns", "/coredns"),), {"Entrypoint": ["/coredns"]})
    sandbox = re.search(r'sandbox_image = "(.*)"', (root / "etc/containerd/config.toml").read_text())
    assert sandbox, "kind's containerd settings name the image of a pod's sandbox"
    pause = image_archive.pack_files({"/pause": scratch_image.executable("pause")}, scratch / "pause.tar")
    yield LayeredImage(sandbox[1], (pause,), {"Entrypoint": ["/pause"], "User": "65535:65535"})


def _network_layer(root: Path, scratch: Path) -> Path:
    """Pack the commands of kube-proxy and the pod network, and the libraries that they load, from the node's Debian."""
    directory = scratch / "network"
    for name in ("bin", "sbin", "lib", "lib64"):
        (directory / "usr" / name).mkdir(parents=True)
        (directory / name).symlink_to(f"usr/{name}")
    for name in ("proc", "sys", "dev", "tmp", "run", "etc", "var"):
        (directory / name).mkdir()
    wanted = [
        f"usr/{place}/{command}"
        for command in NETWORK_COMMANDS
        for place in ("bin", "sbin")
        if (root / "usr" / place / command).exists() or (root / "usr" / place / command).is_symlink()
    ]
    modules = next((root / "usr/lib").glob("*/xtables")).relative_to(root)
    for name in (*wanted, str(modules), "etc/alternatives"):
        _copy(root / name, directory / name)
    programs = [f"/{name}" for name in (*wanted, *(f"{modules}/{entry.name}" for entry in (root / modules).iterdir()))]
    output = subprocess.run(["chroot", str(root), "ldd", *programs], capture_output=True, text=True, check=False).stdout
    loaded = set(re.findall(r"(?:=>\s+|^\s+)(/\S+)\s+\(0x", output, re.MULTILINE))
    for library in sorted(loaded):
        target = directory / library.lstrip("/")
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy((root / library.lstrip("/")).resolve(), target)
    shutil.copy(FILES / "pod-network.sh", directory / "pod-network.sh")
    return image_archive.pack_directory(directory, scratch / "network.tar")


def _add_programs(root: Path, programs: dict[str, Path]) -> None:
    for name in NODE:
        shutil.copy(programs[name], root / "usr/bin" / name)
    manifests = root / "kind" / "manifests"
    manifests.mkdir()
    shutil.copy(FILES / "pod-network.yaml", manifests / "default-cni.yaml")
    shutil.copy(FILES / "storage.yaml", manifests / "default-storage.yaml")
    (root / "kind" / "version").write_text(binaries.KUBERNETES)


def _import(docker: Docker, root: Path, images: Path, name: str, scratch: Path) -> None:
    """Load the Debian as an image, import `images` by the containerd in it, and commit the result as `name`."""
    base = f"{name}-base"
    entrypoint = ["/usr/local/bin/entrypoint", "/sbin/init"]
    config = {"Entrypoint": entrypoint, "Env": ["container=docker"], "StopSignal": "SIGRTMIN+3"}
    archive = scratch / "base.tar"
    layer = image_archive.pack_directory(root, scratch / "root.tar")
    image_archive.write(archive, [LayeredImage(base, (layer,), config)])
    docker.run("load", "--quiet", "--input", str(archive))
    with _container(docker, base) as container:
        docker.run("exec", "--detach", container, "containerd")
        waiting = f"for i in $(seq {STARTED_LIMIT * 10}); do ctr version && exit; sleep 0.1; done; exit 1"
        docker.run("exec", container, "bash", "-c", waiting)
        command = ["ctr", "--namespace=k8s.io", "images", "import", "--all-platforms", "--no-unpack", "--digests", "-"]
        with images.open("rb") as content:
            docker.run("exec", "--interactive", container, *command, stdin=content)
        docker.run("exec", container, "bash", "-c", "pkill containerd; while pgrep containerd; do sleep 0.1; done")
        docker.run("commit", "--change", f'ENTRYPOINT ["{entrypoint[0]}", "{entrypoint[1]}"]', container, name)
    docker.run("image", "rm", base)


@contextmanager
def _container(docker: Docker, image: str) -> Iterator[str]:
    container = docker.run("run", "--detach", "--privileged", "--entrypoint", "sleep", image, "infinity").strip()
    try:
        yield container
    finally:
        docker.run("rm", "--force", "--volumes", container)


def _kind_module() -> Path:
    """Return the directory of kind's Go module in Go's cache."""
    go = toolchain(binaries.minimum_go())
    done = subprocess.run(
        [str(go.command), "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/kind"],
        cwd=binaries.PROGRAMS["kind"].directory, env=go.environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode or not done.stdout.strip():
        raise ClusterError(f"Go does not find the sources of kind: {done.stderr.strip() or 'not in its cache'}")
    return Path(done.stdout.strip())


def _chroot(root: Path, *command: str) -> None:
    done = subprocess.run(["chroot", str(root), *command], capture_output=True, text=True, check=False)
    if done.returncode:
        raise ClusterError(f"`{' '.join(command)}` failed in the image of kind's nodes: {done.stderr.strip()}")


def _replace(file: Path, pattern: str, replacement: str) -> None:
    text, count = re.subn(pattern, replacement, file.read_text(), flags=re.MULTILINE)
    if not count:
        raise ClusterError(
            f"kind's file {file.name} is not as expected ({pattern}): adapt node_image.py to this version of kind."
        )
    file.write_text(text)


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir() and not source.is_symlink():
        shutil.copytree(source, target, symlinks=True)
    else:
        shutil.copy2(source, target, follow_symlinks=False)
