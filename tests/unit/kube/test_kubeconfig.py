from __future__ import annotations

import base64
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from dtj_operator.kube.kubeconfig import load_config
from dtj_operator.kube.rest_config import ConfigError, in_cluster_config


def kubeconfig(folder: Path, *, cluster: dict[str, Any] | None = None, user: dict[str, Any] | None = None) -> str:
    config = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "team"}}],
        "clusters": [{"name": "c", "cluster": cluster or {"server": "https://127.0.0.1:6443/"}}],
        "users": [{"name": "u", "user": {"token": "secret"} if user is None else user}],
    }
    path = folder / "config"
    path.write_text(yaml.safe_dump(config))
    return str(path)


def test_a_kubeconfig_gives_server_namespace_and_token(tmp_path):
    config = load_config(kubeconfig(tmp_path), {})
    assert config.server == "https://127.0.0.1:6443"
    assert config.namespace == "team"
    assert config.token.current() == "secret"


def test_certificates_may_be_inline_or_files_beside_the_kubeconfig(tmp_path):
    (tmp_path / "key.pem").write_bytes(b"KEY")
    user = {"client-certificate-data": base64.b64encode(b"CERT").decode(), "client-key": "key.pem"}
    config = load_config(kubeconfig(tmp_path, user=user), {})
    assert (config.certificate, config.private_key) == (b"CERT", b"KEY")


@pytest.mark.parametrize(
    ("cluster", "user"),
    [
        ({"certificate-authority-data": base64.b64encode(b"CA").decode()}, {"token": "secret"}),
        ({"certificate-authority-data": base64.b64encode(bytes([0xFF])).decode()}, {"token": "secret"}),
        (
            {},
            {
                "client-certificate-data": base64.b64encode(b"CERT").decode(),
                "client-key-data": base64.b64encode(b"KEY").decode(),
            },
        ),
    ],
    ids=["no PEM", "no text", "no client certificate"],
)
def test_certificates_that_are_none_are_told_in_a_sentence(tmp_path, cluster, user):
    config = kubeconfig(tmp_path, cluster={"server": "https://127.0.0.1:6443", **cluster}, user=user)
    with pytest.raises(ConfigError, match=r"the certificates for https://127\.0\.0\.1:6443 are no PEM"):
        load_config(config, {}).ssl_context()


def test_the_flag_wins_over_the_environment(tmp_path):
    assert load_config(kubeconfig(tmp_path), {"KUBECONFIG": "/nowhere"}).namespace == "team"


def test_of_several_files_the_first_that_exists_is_read(tmp_path):
    assert load_config(None, {"KUBECONFIG": f"/nowhere:{kubeconfig(tmp_path)}"}).namespace == "team"


def test_a_token_file_is_read_again(tmp_path):
    file = tmp_path / "token"
    file.write_text("first\n")
    token = load_config(kubeconfig(tmp_path, user={"tokenFile": str(file)}), {}).token
    assert token.current() == "first"
    file.write_text("second\n")
    assert token.current() == "first"
    token.forget()
    assert token.current() == "second"


def test_in_a_pod_the_server_is_waited_for_through_an_upgrade_of_it(tmp_path):
    for name in ("token", "ca.crt"):
        (tmp_path / name).write_text(name)
    in_a_pod = in_cluster_config({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, tmp_path)
    assert in_a_pod.startup_timeout_seconds >= 600 > load_config(kubeconfig(tmp_path), {}).startup_timeout_seconds


@pytest.mark.parametrize(
    ("cluster", "user", "words"),
    [
        (None, {"exec": {"command": "aws"}}, "needs an exec plugin"),
        (None, {"username": "me", "password": "x"}, "has a password"),
        (None, {"token": "admin's", "as": "system:serviceaccount:team:reader"}, "impersonates somebody"),
        (None, {"token": "admin's", "as-groups": ["view"]}, "impersonates somebody"),
        ({"server": "https://10.0.0.1", "proxy-url": "socks5://127.0.0.1:1080"}, None, "through a proxy-url"),
        (None, {"client-certificate-data": "Q0VSVA=="}, "both a client certificate and its key"),
        *(
            ({"server": server}, None, f"no http or https server address: {re.escape(repr(server))}")
            for server in ("", "127.0.0.1", "https://", "https://127.0.0.1:99999", "http://[::1", "https://a:b")
        ),
        (None, {"tokenFile": 5}, "token file .*5 cannot be read"),
        ({"server": "https://x", "certificate-authority": "missing.crt"}, None, "cannot be read from"),
    ],
)
def test_what_cannot_work_is_told_in_a_sentence(tmp_path, cluster, user, words):
    with pytest.raises(ConfigError, match=words):
        load_config(kubeconfig(tmp_path, cluster=cluster, user=user), {})


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ({"current-context": 5}, "names the context 5 but does not define it"),
        ({"contexts": 5}, "names the context 'here' but does not define it"),
        ({"clusters": [5]}, "names the cluster 'c' but does not define it"),
        ({"users": 5}, "names the user 'u' but does not define it"),
        ({"users": {"name": "u"}}, "names the user 'u' but does not define it"),
    ],
)
def test_what_is_no_list_of_entries_counts_as_empty(tmp_path, section, words):
    config = Path(kubeconfig(tmp_path))
    config.write_text(yaml.safe_dump(yaml.safe_load(config.read_text()) | section))
    with pytest.raises(ConfigError, match=words):
        load_config(str(config), {})


def test_a_missing_kubeconfig_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"nothing.yaml does not exist: check KUBECONFIG"):
        load_config(str(tmp_path / "nothing.yaml"), {})


def test_no_cluster_at_all_says_what_to_set(tmp_path):
    with pytest.raises(ConfigError, match="set KUBECONFIG or --kubeconfig"):
        load_config(None, {"HOME": str(tmp_path)})
