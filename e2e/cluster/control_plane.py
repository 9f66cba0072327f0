"""A control plane without nodes: etcd and kube-apiserver as plain processes on loopback.

Needs neither root nor namespaces. `start_control_plane()` is a context manager; whatever
happens to the process that entered it, SIGKILL included, it ends too.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from e2e.cluster import binaries, component_commands, kubeconfig, kwok, machine
from e2e.cluster.api_client import ApiClient
from e2e.cluster.audit import POLICY, AuditLog
from e2e.cluster.interface import ClusterError
from e2e.cluster.machine import Machine
from e2e.cluster.pki import Authority
from e2e.cluster.wait import wait_until

DOCUMENTATION_ADDRESS = "192.0.2.1"
"""Advertised, but never used (RFC 5737): the server refuses to advertise loopback."""

PORTS = range(20_000, 30_000)
ALL_CONTROLLERS = "*"
GARBAGE_COLLECTOR = "garbage-collector-controller"
READY_LIMIT = 120.0
TOKEN_SECONDS = 86_400


@dataclass(frozen=True)
class ControlPlane:
    """A running etcd and kube-apiserver, with controllers and scheduler where they were asked for."""

    directory: Path
    server: str
    kubeconfig: Path
    audit: AuditLog
    machine: Machine
    authority: Authority

    @cached_property
    def api(self) -> ApiClient:
        """Return a client with administrator's rights."""
        return ApiClient(self.kubeconfig)

    def user(self, name: str, *, group: str = "") -> Path:
        """Write a kubeconfig for a user of that name, who has only the rights that RBAC grants."""
        pair = self.authority.issue(f"user-{name}", name, organization=group)
        return kubeconfig.write(
            self.directory / f"{name}.kubeconfig",
            self.server,
            self.authority.certificate,
            kubeconfig.certificate_user(pair),
        )

    def service_account(self, namespace: str, name: str) -> Path:
        """Write a kubeconfig with a bound token of that ServiceAccount, which is created where it is missing."""
        self.namespace(namespace)
        accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
        self.api.create(accounts, {"metadata": {"name": name}})
        asked = {"spec": {"expirationSeconds": TOKEN_SECONDS}}
        token = self.api.create(f"{accounts}/{name}/token", asked)["status"]["token"]
        return kubeconfig.write(
            self.directory / f"{namespace}.{name}.kubeconfig",
            self.server,
            self.authority.certificate,
            kubeconfig.token_user(token),
        )

    def namespace(self, name: str) -> str:
        """Create a namespace where it is missing; returns its name."""
        self.api.create("/api/v1/namespaces", {"metadata": {"name": name}})
        return name

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Run kubectl as administrator; returns its standard output."""
        return kubectl(self.kubeconfig, *arguments, stdin=stdin, cache=self.directory / "kubectl-cache")

    def start_controllers(self, chosen: str) -> None:
        """Start kube-controller-manager with these controllers, in the syntax of its flag `--controllers`.

        Garbage collection knows the kinds that exist when it starts, others half a minute later.
        """
        program = binaries.ensure("kube-controller-manager")["kube-controller-manager"]
        pki = self.authority.directory
        config = self.user("system:kube-controller-manager")
        arguments = component_commands.controllers(program, config, pki / "ca.crt", pki / "sa.key", grace_seconds=40)
        port = f"--secure-port={free_port()}"
        self.machine.start("kube-controller-manager", *arguments, f"--controllers={chosen}", port)

    def stop(self, process: str) -> None:
        """Kill one process of the control plane: `kube-apiserver`, `etcd`, ..."""
        self.machine.stop(process)


@contextmanager
def start_control_plane(
    *,
    fake_nodes: int = 0,
    server_flags: tuple[str, ...] = (),
    environment: Mapping[str, str] = machine.COLLECTION,
) -> Iterator[ControlPlane]:
    """Start an API server on free loopback ports, ready to serve; everything is removed afterwards.

    `fake_nodes` adds kube-controller-manager (garbage collection, namespaces),
    kube-scheduler, kwok, and so many nodes whose pods run without containers. `environment` is added to the programs'
    environment.
    """
    whole = fake_nodes > 0
    more = ("kube-controller-manager", "kube-scheduler", "kwok") if whole else ()
    programs = binaries.ensure(*binaries.CONTROL_PLANE, *more)
    with ExitStack() as stack:
        host = Machine("control-plane", Path(tempfile.mkdtemp(prefix="dtj-control-plane-", dir="/tmp")))
        init = machine.start_plain(host, environment)
        stack.callback(machine.end, init)
        running = _control_plane(host, programs, whole, server_flags)
        if whole:
            running.start_controllers(ALL_CONTROLLERS)
            _wait_for_service_accounts(running)
            kwok.start(host, programs, running.api, running.kubeconfig, fake_nodes)
        yield running


def kubectl(config: Path, *arguments: str, stdin: str | None = None, cache: Path | None = None) -> str:
    """Run kubectl with that kubeconfig; returns its standard output, or raises ClusterError with its own words.

    `cache` is its discovery cache. The default one identifies a server by its address, which different control planes
    use one after the other.
    """
    command = [str(binaries.path("kubectl")), f"--kubeconfig={config}", *arguments]
    env = os.environ | ({"KUBECACHEDIR": str(cache)} if cache else {})
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False, env=env)
    if done.returncode:
        raise ClusterError(f"`kubectl {' '.join(arguments)}` failed: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def free_port() -> int:
    """Return a loopback port that nothing uses now, outside the range of outgoing connections."""
    while not is_free(port := secrets.choice(PORTS)):
        pass
    return port


def is_free(port: int) -> bool:
    """Tell whether nothing uses that loopback port now."""
    with socket.socket() as probe, contextlib.suppress(OSError):
        probe.bind(("127.0.0.1", port))
        return True
    return False


def _control_plane(host: Machine, programs: dict[str, Path], whole: bool, flags: tuple[str, ...]) -> ControlPlane:  # noqa: FBT001
    home = host.directory
    at = component_commands.Endpoints(free_port(), free_port(), free_port(), "127.0.0.1", DOCUMENTATION_ADDRESS)
    authority = Authority(home / "pki")
    trust = component_commands.Credentials(
        authority.certificate,
        authority.issue(
            "apiserver", "kube-apiserver", names=("127.0.0.1", "localhost", component_commands.FIRST_SERVICE)
        ),
        authority.service_account_keys(),
        authority.issue("kubelet-client", "kube-apiserver-kubelet-client"),
    )
    admin = kubeconfig.certificate_user(authority.issue("admin", "admin", organization="system:masters"))
    config = kubeconfig.write(home / "admin.kubeconfig", at.url, authority.certificate, admin)
    policy, log = home / "audit-policy.json", home / "audit.log"
    policy.write_text(json.dumps(POLICY))
    host.start("etcd", *component_commands.etcd(programs["etcd"], at, home / "etcd"))
    more = component_commands.ON_LOOPBACK if whole else component_commands.WITHOUT_CONTROLLERS
    host.start(
        "kube-apiserver", *component_commands.server(programs["kube-apiserver"], at, trust, policy, log), *more, *flags
    )
    running = ControlPlane(home, at.url, config, AuditLog(log), host, authority)
    wait_ready(running.api, host)
    return running


def wait_ready(api: ApiClient, host: Machine) -> None:
    """Wait until the API server is ready; ClusterError with its last log line where it ended."""

    def ready() -> bool:
        host.require_running()
        return api.ready()

    log = host.log("kube-apiserver")
    wait_until(
        ready,
        READY_LIMIT,
        lambda: f"The API server is not ready after {READY_LIMIT:.0f} s; it said last: {machine.last_log_line(log)}",
    )


def _wait_for_service_accounts(running: ControlPlane) -> None:
    default = "/api/v1/namespaces/default/serviceaccounts"
    log = running.machine.log("kube-controller-manager")
    wait_until(
        lambda: any(item["metadata"]["name"] == "default" for item in running.api.get(default)["items"]),
        READY_LIMIT,
        lambda: f"kube-controller-manager made no ServiceAccount: {machine.last_log_line(log)}",
    )
