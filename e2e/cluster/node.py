"""The configuration of a node: containerd, CNI, kubelet, kube-proxy and CoreDNS. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2e.cluster import component_commands
from e2e.cluster.network import CONTROL_ADDRESS, NodeAddress
from e2e.cluster.pki import Pair

PAUSE = "localhost/dtj-pause:1"
LEASE_SECONDS = 16
STATUS_SECONDS = 4


@dataclass(frozen=True)
class NodeHost:
    """One node: its name, address, directory, and what the host allows it."""

    name: str
    place: NodeAddress
    directory: Path
    cgroup: str
    plugins: Path
    snapshotter: str
    may_lower_oom_score: bool

    @property
    def socket(self) -> Path:
        """Return containerd's socket."""
        return self.directory / "containerd.sock"

    @property
    def images(self) -> Path:
        """Return containerd's persistent root: content and snapshots."""
        return self.directory / "containerd"

    @property
    def kubeconfig(self) -> Path:
        """Return the kubelet's kubeconfig."""
        return self.directory / "kubelet.kubeconfig"


def cni(host: NodeHost) -> str:
    """Return the CNI configuration: a bridge for the node's pods, gateway included; host ports by portmap."""
    ranges = [[{"subnet": host.place.pods}]]
    ipam = {
        "type": "host-local", "dataDir": "/run/cni-ipam", "ranges": ranges, "routes": [{"dst": "0.0.0.0/0"}],
    }  # fmt: skip
    bridge = {"type": "bridge", "bridge": "cni0", "isGateway": True, "hairpinMode": True, "ipam": ipam}
    portmap = {"type": "portmap", "capabilities": {"portMappings": True}}
    return json.dumps({"cniVersion": "1.0.0", "name": "dtj", "plugins": [bridge, portmap]})


def containerd(host: NodeHost) -> str:
    """Return the configuration, version 2, of containerd 1.6 (Debian 12) and newer 1.x."""
    return f"""version = 2
root = {_quoted(host.images)}
state = "/run/containerd"
oom_score = 0
[grpc]
  address = {_quoted(host.socket)}
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = {_quoted(PAUSE)}
  restrict_oom_score_adj = {"false" if host.may_lower_oom_score else "true"}
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = {_quoted(host.plugins)}
    conf_dir = {_quoted(host.directory / "cni")}
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = {_quoted(host.snapshotter)}
[plugins."io.containerd.internal.v1.opt"]
  path = {_quoted(host.directory / "opt")}
"""


def kubelet(host: NodeHost, authority: Path, serving: Pair) -> dict[str, Any]:
    """Return the KubeletConfiguration: images are never collected, and only memory pressure evicts."""
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "failCgroupV1": False,
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{host.cgroup}",
        "cgroupsPerQOS": True,
        "enforceNodeAllocatable": [],
        "clusterDNS": [CONTROL_ADDRESS],
        "clusterDomain": "cluster.local",
        "resolvConf": "",
        "address": host.place.address,
        "readOnlyPort": 0,
        "failSwapOn": False,
        "containerRuntimeEndpoint": f"unix://{host.socket}",
        "imageMinimumGCAge": "24h",
        "imageGCHighThresholdPercent": 100,
        "evictionHard": {"memory.available": "100Mi"},
        "serializeImagePulls": False,
        "maxPods": 110,
        "nodeStatusUpdateFrequency": f"{STATUS_SECONDS}s",
        "nodeLeaseDurationSeconds": LEASE_SECONDS,
        "volumePluginDir": str(host.directory / "volume-plugins"),
        "tlsCertFile": str(serving.certificate),
        "tlsPrivateKeyFile": str(serving.key),
        "authentication": {
            "x509": {"clientCAFile": str(authority)}, "webhook": {"enabled": True}, "anonymous": {"enabled": False},
        },
        "authorization": {"mode": "Webhook"},
    }  # fmt: skip


def kubelet_command(program: Path, host: NodeHost, config: Path) -> list[str]:
    """Return the kubelet's command, with its state where the machine mounts it."""
    return [
        str(program),
        f"--config={config}",
        f"--kubeconfig={host.kubeconfig}",
        f"--hostname-override={host.name}",
        f"--node-ip={host.place.address}",
        "--root-dir=/var/lib/kubelet",
    ]


def proxy_command(program: Path, host: NodeHost, kubeconfig: Path) -> list[str]:
    """Return kube-proxy's command; conntrack limits belong to the host and are not changed."""
    return [
        str(program),
        f"--kubeconfig={kubeconfig}",
        f"--hostname-override={host.name}",
        "--proxy-mode=iptables",
        f"--cluster-cidr={component_commands.PODS}",
        "--healthz-bind-address=127.0.0.1:10256",
        "--metrics-bind-address=127.0.0.1:10249",
        "--conntrack-max-per-core=0",
        "--conntrack-tcp-timeout-established=0s",
        "--conntrack-tcp-timeout-close-wait=0s",
    ]


DNS_TTL_SECONDS = 5


def corefile(kubeconfig: Path) -> str:
    """Return CoreDNS' configuration: on the bridge, for cluster names alone, because there is no outside network."""
    return f"""cluster.local:53 in-addr.arpa:53 {{
  bind {CONTROL_ADDRESS}
  errors
  kubernetes cluster.local in-addr.arpa {{
    kubeconfig {_quoted(kubeconfig)}
    pods disabled
    ttl {DNS_TTL_SECONDS}
  }}
}}
.:53 {{
  bind {CONTROL_ADDRESS}
  errors
  template ANY ANY {{
    rcode NXDOMAIN
  }}
}}
"""


def _quoted(value: object) -> str:
    """Quote a TOML string or a word of a Corefile; JSON's escapes are a subset of TOML's."""
    return json.dumps(str(value))
