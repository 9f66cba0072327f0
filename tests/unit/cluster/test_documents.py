"""Files that are written for other programs: kubeconfigs, certificates, node configuration, images."""

import contextlib
import io
import json
import ssl
import tarfile
import tomllib
from pathlib import Path

import pytest
import yaml
from cryptography import x509

from e2e.cluster import images_on_nodes, kind, kubeconfig, network, node, scratch_image, volumes
from e2e.cluster.interface import ClusterError
from e2e.cluster.pki import Authority


@pytest.fixture
def host(tmp_path):
    return node.NodeHost(
        name="node-2",
        place=network.NodeAddress(2),
        directory=tmp_path / 'odd "name"',
        cgroup="dtj-x-node-2",
        plugins=Path("/usr/lib/cni"),
        snapshotter="overlayfs",
        may_lower_oom_score=False,
    )


def test_a_certificate_names_its_user_group_and_addresses(tmp_path):
    pair = Authority(tmp_path / "pki").issue("n", "system:node:a", organization="system:nodes", names=("a", "10.0.0.1"))
    made = x509.load_pem_x509_certificate(pair.certificate.read_bytes())
    assert made.subject.rfc4514_string() == "CN=system:node:a,O=system:nodes"
    names = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["a"]
    assert [str(address) for address in names.get_values_for_type(x509.IPAddress)] == ["10.0.0.1"]


def test_the_chain_stands_strict_verification(tmp_path):
    authority = Authority(tmp_path / "pki")
    pair = authority.issue("server", "server", names=("localhost",))
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(pair.certificate, pair.key)
    asking = ssl.create_default_context(cafile=str(authority.certificate))
    asking.verify_flags |= ssl.VERIFY_X509_STRICT
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = asking.wrap_bio(to_client, to_server, server_hostname="localhost")
    server = serving.wrap_bio(to_server, to_client, server_side=True)
    for side in (client, server, client):
        with contextlib.suppress(ssl.SSLWantReadError):
            side.do_handshake()
    assert client.getpeercert()


def test_keys_are_readable_by_their_owner_alone(tmp_path):
    pair = Authority(tmp_path / "pki").issue("a", "a")
    assert pair.key.stat().st_mode & 0o077 == 0


def test_a_kubeconfig_is_private_and_has_one_context(tmp_path):
    authority = Authority(tmp_path / "pki")
    path = kubeconfig.write(
        tmp_path / "config", "https://127.0.0.1:1", authority.certificate, kubeconfig.token_user("t0ken")
    )
    content = yaml.safe_load(path.read_text())
    assert content["users"][0]["user"] == {"token": "t0ken"}
    assert content["current-context"] == content["contexts"][0]["name"]
    assert path.stat().st_mode & 0o077 == 0


def test_containerd_reads_its_settings_whatever_the_path(host):
    settings = tomllib.loads(node.containerd(host))
    cri = settings["plugins"]["io.containerd.grpc.v1.cri"]
    assert cri["restrict_oom_score_adj"] is True
    assert settings["root"] == str(host.images)


def test_the_kubeconfig_of_dns_is_one_word_whatever_the_path():
    assert '    kubeconfig "/with space/k"\n' in node.corefile(Path("/with space/k"))


def test_each_node_has_its_own_pods_and_control_group(host):
    plugins = json.loads(node.cni(host))["plugins"]
    assert plugins[0]["ipam"]["ranges"] == [[{"subnet": "10.244.2.0/24"}]]
    settings = node.kubelet(host, Path("ca"), Authority(host.directory / "pki").issue("n", "n"))
    assert settings["cgroupRoot"] == "/dtj-x-node-2"
    assert settings["clusterDNS"] == [network.CONTROL_ADDRESS]


def test_dns_answers_are_kept_for_the_documented_seconds():
    assert f"ttl {node.DNS_TTL_SECONDS}" in node.corefile(Path("k"))
    documented = Path(__file__).parents[3] / "docs" / "howto" / "test-clusters.md"
    assert f"{node.DNS_TTL_SECONDS} seconds" in documented.read_text()


def test_a_claim_and_its_volume_are_made_for_each_other():
    volume = volumes.volume("team", "data", Path("/there"))
    claim = volumes.claim("team", "data", bound_to=volume["metadata"]["name"])
    assert claim["spec"]["volumeName"] == "team-data"
    assert volume["spec"]["claimRef"]["name"] == claim["metadata"]["name"]
    assert volume["spec"]["accessModes"] == claim["spec"]["accessModes"] == ["ReadWriteMany"]


def test_an_image_of_one_program_is_the_same_each_time():
    assert scratch_image.pack("a", b"x", "r:1", "amd64") == scratch_image.pack("a", b"x", "r:1", "amd64")


def test_an_archive_is_known_by_its_manifest(tmp_path):
    first, second = tmp_path / "1.tar", tmp_path / "2.tar"
    first.write_bytes(scratch_image.pack("a", b"x", "r:1", "amd64"))
    second.write_bytes(scratch_image.pack("a", b"y", "r:1", "amd64"))
    assert images_on_nodes.identity(first) != images_on_nodes.identity(second)


def test_what_is_no_image_archive_is_refused_by_name(tmp_path):
    (tmp_path / "text").write_text("no tar")
    with pytest.raises(ClusterError, match="cannot be read as an image archive"):
        images_on_nodes.identity(tmp_path / "text")
    with tarfile.open(tmp_path / "other.tar", "w") as tar:
        tar.addfile(tarfile.TarInfo("hello"), io.BytesIO())
    with pytest.raises(ClusterError, match=r"neither manifest\.json nor index\.json"):
        images_on_nodes.identity(tmp_path / "other.tar")


def test_kind_shares_one_directory_between_its_workers(tmp_path):
    asked = kind.configuration(2, 0, tmp_path)
    assert [entry["role"] for entry in asked["nodes"]] == ["control-plane", "worker", "worker"]
    assert all(entry["extraMounts"][0]["hostPath"] == str(tmp_path / "volumes") for entry in asked["nodes"][1:])
