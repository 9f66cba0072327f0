from __future__ import annotations

import pytest

from dtj_operator.app.settings import Address, Settings, SettingsError, parser, settings_from


def settings(*arguments: str, **environment: str) -> Settings:
    return settings_from(parser().parse_args(["run", *arguments]), environment)


def test_without_any_setting_the_defaults_hold():
    assert settings() == Settings()


def test_every_flag_is_also_an_environment_variable():
    by_flag = settings(
        "--kubeconfig=/k", "--namespace=a", "--namespace=b", "--no-leader-elect", "--workers=3", "--kube-api-qps=20",
        "--kube-api-burst=40", "--metrics-bind-address=:9090", "--health-probe-bind-address=0", "--no-progress",
        "--network-policy", "--lease-name=l", "--log-format=json", "--log-level=debug",
    )  # fmt: skip
    by_environment = settings(
        DTJ_OPERATOR_KUBECONFIG="/k", DTJ_OPERATOR_NAMESPACE="a,b", DTJ_OPERATOR_LEADER_ELECT="false",
        DTJ_OPERATOR_WORKERS="3", DTJ_OPERATOR_KUBE_API_QPS="20", DTJ_OPERATOR_KUBE_API_BURST="40",
        DTJ_OPERATOR_METRICS_BIND_ADDRESS=":9090", DTJ_OPERATOR_HEALTH_PROBE_BIND_ADDRESS="0",
        DTJ_OPERATOR_PROGRESS="no", DTJ_OPERATOR_NETWORK_POLICY="yes", DTJ_OPERATOR_LOG_FORMAT="json",
        DTJ_OPERATOR_LEASE_NAME="l", DTJ_OPERATOR_LOG_LEVEL="debug",
    )  # fmt: skip
    assert by_flag == by_environment
    assert by_flag.metrics == Address("", 9090)
    assert by_flag.health is None


def test_the_flag_wins():
    assert settings("--workers=3", DTJ_OPERATOR_WORKERS="5").workers == 3
    assert settings("--leader-elect", DTJ_OPERATOR_LEADER_ELECT="false").leader_elect


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        ("--workers=many", r"--workers \(DTJ_OPERATOR_WORKERS\) is 'many': give a number"),
        ("--workers=0", "at least 1"),
        ("--kube-api-qps=nan", "give a number"),
        ("--metrics-bind-address=here", "give HOST:PORT"),
        ("--metrics-bind-address=:99999", "give HOST:PORT"),
        ("--log-format=xml", "give one of text, json"),
        ("--namespace=", r"--namespace \(DTJ_OPERATOR_NAMESPACE\) has '' in it: .* leave it out for the whole cluster"),
        ("--namespace=a,b", "has 'a,b' in it"),
        ("--lease-name=Foo_Bar", r"--lease-name \(DTJ_OPERATOR_LEASE_NAME\) is 'Foo_Bar': give an object's name"),
        ("--lease-name=", "is ''"),
        ("--lease-name=a..b", r"is 'a\.\.b'"),
        (f"--lease-name={'a.' * 127}a", "give an object's name"),
        ("--no-such-flag", "unrecognized arguments"),
    ],
)
def test_nonsense_is_refused_in_a_sentence(argument, words):
    with pytest.raises(SettingsError, match=words):
        settings(argument)


@pytest.mark.parametrize("names", ["a,,b", ",", "a,"])
def test_a_namespace_without_a_name_is_not_the_whole_cluster(names):
    with pytest.raises(SettingsError, match="has '' in it"):
        settings(DTJ_OPERATOR_NAMESPACE=names)


def test_a_variable_that_is_empty_is_not_set():
    assert settings(DTJ_OPERATOR_NAMESPACE="", DTJ_OPERATOR_WORKERS="") == Settings()
