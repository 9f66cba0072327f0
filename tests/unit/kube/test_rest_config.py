from __future__ import annotations

from dtj_operator.kube.rest_config import RestConfig, in_cluster_config


def test_a_pod_uses_its_service_account(tmp_path):
    for name, text in {"token": "t", "namespace": "dtj-system", "ca.crt": "PEM"}.items():
        (tmp_path / name).write_text(text)
    environment = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    config = in_cluster_config(environment, tmp_path)
    assert config.server == "https://[fd00::1]:443"
    assert (config.namespace, config.token.current(), config.ca) == ("dtj-system", "t", b"PEM")


def test_plain_http_needs_no_tls():
    assert RestConfig(server="http://127.0.0.1:1").ssl_context() is None
