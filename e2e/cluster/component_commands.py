"""Command lines of the control plane's components. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from e2e.cluster.pki import Pair

SERVICES = "10.96.0.0/16"
FIRST_SERVICE = "10.96.0.1"
PODS = "10.244.0.0/16"
NO_PROXY = "no-front-proxy"
"""No certificate has this name; controllers log warnings where no proxy authority is set at all."""

AUDIT_MEGABYTES = 8192
"""The log is one file; beyond this size the server would rotate it."""


@dataclass(frozen=True)
class Endpoints:
    """The ports and addresses that the control plane listens on."""

    etcd: int
    etcd_peer: int
    server: int
    bind: str
    advertise: str

    @property
    def url(self) -> str:
        """Return the API server's URL."""
        return f"https://{self.bind}:{self.server}"


@dataclass(frozen=True)
class Credentials:
    """The certificates that the API server presents and trusts."""

    authority: Path
    serving: Pair
    service_accounts: Pair
    kubelet_client: Pair


def etcd(program: Path, at: Endpoints, data: Path) -> list[str]:
    """Return the command of one etcd member, on loopback, without fsync: its data is thrown away."""
    client, peer = f"http://127.0.0.1:{at.etcd}", f"http://127.0.0.1:{at.etcd_peer}"
    return [
        str(program), "--data-dir", str(data), "--name", "default", "--log-level", "warn", "--unsafe-no-fsync",
        "--listen-client-urls", client, "--advertise-client-urls", client,
        "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}",
        "--quota-backend-bytes", str(6 * 2**30),
        "--auto-compaction-mode", "periodic", "--auto-compaction-retention", "5m",
    ]  # fmt: skip


def server(program: Path, at: Endpoints, trust: Credentials, audit_policy: Path, audit_log: Path) -> list[str]:
    """Return the command of kube-apiserver with RBAC, NodeRestriction, Pod Security and an audit log."""
    return [
        str(program),
        f"--etcd-servers=http://127.0.0.1:{at.etcd}",
        f"--bind-address={at.bind}",
        f"--advertise-address={at.advertise}",
        f"--secure-port={at.server}",
        f"--tls-cert-file={trust.serving.certificate}",
        f"--tls-private-key-file={trust.serving.key}",
        f"--client-ca-file={trust.authority}",
        f"--requestheader-client-ca-file={trust.authority}",
        f"--requestheader-allowed-names={NO_PROXY}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--anonymous-auth=false",
        f"--service-cluster-ip-range={SERVICES}",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        f"--service-account-key-file={trust.service_accounts.certificate}",
        f"--service-account-signing-key-file={trust.service_accounts.key}",
        f"--kubelet-client-certificate={trust.kubelet_client.certificate}",
        f"--kubelet-client-key={trust.kubelet_client.key}",
        f"--kubelet-certificate-authority={trust.authority}",
        "--kubelet-preferred-address-types=InternalIP",
        "--allow-privileged=true",
        f"--audit-policy-file={audit_policy}",
        f"--audit-log-path={audit_log}",
        "--audit-log-mode=blocking",
        f"--audit-log-maxsize={AUDIT_MEGABYTES}",
    ]


WITHOUT_CONTROLLERS = ("--disable-admission-plugins=ServiceAccount", "--endpoint-reconciler-type=none")
"""For an API server alone: no controller creates the default ServiceAccounts, and nothing needs its endpoint."""

ON_LOOPBACK = ("--endpoint-reconciler-type=none",)
"""An endpoint may not be in the loopback range."""


def controllers(program: Path, kubeconfig: Path, authority: Path, signing_key: Path, grace_seconds: int) -> list[str]:
    """Return the command of kube-controller-manager; a node is lost after `grace_seconds` without a heartbeat."""
    return [
        str(program),
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--use-service-account-credentials",
        f"--service-account-private-key-file={signing_key}",
        f"--root-ca-file={authority}",
        "--leader-elect=false",
        f"--node-monitor-grace-period={grace_seconds}s",
        "--node-monitor-period=2s",
        "--pvclaimbinder-sync-period=250ms",  # a claim that is seen before its volume waits for the next
        "--kube-api-qps=300",
        "--kube-api-burst=600",
    ]


def scheduler(program: Path, kubeconfig: Path) -> list[str]:
    """Return the command of kube-scheduler, without leader election."""
    return [
        str(program),
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--leader-elect=false",
        "--kube-api-qps=300",
        "--kube-api-burst=600",
    ]
