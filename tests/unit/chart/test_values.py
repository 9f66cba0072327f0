"""Values of the chart that platform teams set."""

from __future__ import annotations

import json

import pytest

from dtj_operator.app.settings import parser, settings_from
from tests.support.chart import CHART, of_kind, one

pytestmark = pytest.mark.contract


def pod(documents):
    return one(documents, "Deployment")["spec"]["template"]


def container(documents):
    (found,) = pod(documents)["spec"]["containers"]
    return found


def test_labels_and_annotations_for_all_are_on_all_and_replace_none_of_the_charts_own(render):
    team = {"team": "ml", "app.kubernetes.io/name": "other", "app.kubernetes.io/managed-by": "me"}
    documents = render(
        commonLabels=team,
        commonAnnotations={"owner": "ml", "helm.sh/resource-policy": "delete"},
        serviceAccount__annotations={"owner": "identity"},
        networkPolicy={"operator": True},
        profiles={"spot": {}},
        rbac__profileEditors=[{"kind": "User", "name": "ada"}],
        replicas=2,
    )
    assert {kind["kind"] for kind in documents} >= {"NetworkPolicy", "ConfigMap", "PodDisruptionBudget", "ClusterRole"}
    for each in documents:
        labels, annotations = each["metadata"]["labels"], each["metadata"]["annotations"]
        assert labels["team"] == "ml"
        assert labels["app.kubernetes.io/name"] == "dtj-operator"
        assert labels["app.kubernetes.io/managed-by"] == "Helm"
        assert annotations["owner"] == ("identity" if each["kind"] == "ServiceAccount" else "ml")
        wanted = "keep" if each["kind"] == "CustomResourceDefinition" else "delete"
        assert annotations["helm.sh/resource-policy"] == wanted
    assert pod(documents)["metadata"]["labels"]["team"] == "ml"


def test_labels_and_annotations_of_the_pods_are_added_and_the_selector_still_finds_them(render):
    documents = render(podLabels={"app.kubernetes.io/name": "mine", "mesh": "off"}, podAnnotations={"a": "b"})
    selector = one(documents, "Deployment")["spec"]["selector"]["matchLabels"]
    metadata = pod(documents)["metadata"]
    assert metadata["labels"].items() >= {**selector, "mesh": "off"}.items()
    assert metadata["annotations"] == {"a": "b", "kubectl.kubernetes.io/default-container": "operator"}


def test_flags_variables_volumes_and_mounts_can_be_added(render):
    documents = render(
        extraArgs=["--workers=7"],
        extraEnv=[{"name": "HTTPS_PROXY", "value": "http://proxy"}],
        extraVolumes=[{"name": "ca", "configMap": {"name": "ca"}}],
        extraVolumeMounts=[{"name": "ca", "mountPath": "/etc/ca", "readOnly": True}],
    )
    found = container(documents)
    assert settings_from(parser().parse_args(found["args"]), {}).workers == 7
    assert [each["name"] for each in found["env"]] == ["POD_NAMESPACE", "HTTPS_PROXY"]
    assert [each["name"] for each in pod(documents)["spec"]["volumes"]] == ["token", "tmp", "ca"]
    assert [each["mountPath"] for each in found["volumeMounts"]][-1] == "/etc/ca"


def test_security_contexts_may_leave_ids_or_everything_to_the_cluster(render):
    def token_mode(documents):
        return pod(documents)["spec"]["volumes"][0]["projected"]["defaultMode"]

    assert token_mode(render()) == 0o440
    openshift = render(podSecurityContext={"runAsUser": None, "runAsGroup": None, "fsGroup": None})
    kept = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    assert pod(openshift)["spec"]["securityContext"] == kept
    bare = render(podSecurityContext=None, securityContext=None)
    assert "securityContext" not in pod(bare)["spec"]
    assert "securityContext" not in container(bare)
    # Nothing says which user or group reads the token.
    assert token_mode(openshift) == token_mode(bare) == 0o444


def test_pods_spread_over_nodes_and_over_what_else_is_asked_for(render):
    selector = {"matchLabels": one(render(), "Deployment")["spec"]["selector"]["matchLabels"]}
    (default,) = pod(render())["spec"]["topologySpreadConstraints"]
    assert default == {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": selector,
    }
    zone = {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule"}
    own = zone | {"labelSelector": {"matchLabels": {"a": "b"}}}
    asked = pod(render(topologySpreadConstraints=[zone, own]))["spec"]["topologySpreadConstraints"]
    assert asked == [zone | {"labelSelector": selector}, own]
    assert "topologySpreadConstraints" not in pod(render(topologySpreadConstraints=[]))["spec"]


@pytest.mark.parametrize(("values", "image"), [
    ({"image__registry": "ghcr.io/me"}, "ghcr.io/me/dtj-operator:0.1.0"),
    ({"image__registry": "ghcr.io/me", "global": {"imageRegistry": "a.local/"}}, "a.local/dtj-operator:0.1.0"),
    ({"image__repository": "ghcr.io/me/op", "image__tag": "1"}, "ghcr.io/me/op:1"),
])  # fmt: skip
def test_the_registry_of_all_charts_wins_over_that_of_this_one(render, values, image):
    assert container(render(**values))["image"] == image


def test_pull_secrets_of_all_charts_are_added_each_once(render):
    secrets = {"imagePullSecrets": ["a", {"name": "b"}], "other": {"shared": "with other charts"}}
    documents = render(**{"global": secrets}, imagePullSecrets=[{"name": "b"}, {"name": "c"}])
    assert pod(documents)["spec"]["imagePullSecrets"] == [{"name": "a"}, {"name": "b"}, {"name": "c"}]


def test_more_objects_are_templates_whether_text_or_not(render):
    documents = render(
        extraObjects=[
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "{{ .Release.Name }}-one"}},
            'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ include "dtj.fullname" . }}-two}\n',
        ]
    )
    assert [each["metadata"]["name"] for each in of_kind(documents, "ConfigMap")] == [
        "dtj-operator-one",
        "dtj-operator-two",
    ]


def test_the_network_policy_of_the_operator_is_off_and_selects_its_pods(render):
    assert of_kind(render(), "NetworkPolicy") == []
    documents = render(networkPolicy__operator=True)
    policy = one(documents, "NetworkPolicy")["spec"]
    assert policy["podSelector"] == one(documents, "Deployment")["spec"]["selector"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    ports = {port["name"] for port in container(documents)["ports"]}
    assert {rule["ports"][0]["port"] for rule in policy["ingress"]} == ports
    assert not any("from" in rule for rule in policy["ingress"])
    server, trainers = policy["egress"]
    assert server == {"ports": [{"port": 443, "protocol": "TCP"}, {"port": 6443, "protocol": "TCP"}]}
    assert trainers["ports"] == [{"port": 9401, "protocol": "TCP"}]
    (peer,) = trainers["to"]
    assert peer["podSelector"]["matchExpressions"] == [{"key": "dtj.dev/job-uid", "operator": "Exists"}]
    assert peer["namespaceSelector"] == {}


def test_the_network_policy_of_the_operator_can_be_narrowed(render):
    prometheus = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
    asked = {
        "operator": True,
        "metricsFrom": [prometheus],
        "apiServerCIDRs": ["10.0.0.1/32"],
        "apiServerPorts": [443],
        "extraEgress": [{"ports": [{"port": 53, "protocol": "UDP"}]}],
    }
    policy = one(render(networkPolicy=asked, watchNamespaces=["a", "b"]), "NetworkPolicy")["spec"]
    sources = {rule["ports"][0]["port"]: rule.get("from") for rule in policy["ingress"]}
    assert sources == {"health": None, "metrics": [prometheus]}
    server, trainers, more = policy["egress"]
    assert server["to"] == [{"ipBlock": {"cidr": "10.0.0.1/32"}}]
    assert [port["port"] for port in server["ports"]] == [443]
    (expression,) = trainers["to"][0]["namespaceSelector"]["matchExpressions"]
    assert (expression["key"], expression["values"]) == ("kubernetes.io/metadata.name", ["a", "b"])
    assert [more] == asked["extraEgress"]


def test_editors_of_profiles_may_change_that_config_map_and_nothing_else(render):
    editors = [{"kind": "Group", "name": "platform", "apiGroup": "rbac.authorization.k8s.io"}]
    assert "dtj-operator-profiles-edit" not in str(render(rbac__profileEditors=editors))
    documents = render(rbac__profileEditors=editors, profiles={"spot": {}})
    assert one(documents, "Role", "dtj-operator-profiles-edit")["rules"] == [
        {
            "apiGroups": [""],
            "resources": ["configmaps"],
            "resourceNames": ["dtj-operator-profiles"],
            "verbs": ["get", "update", "patch"],
        }
    ]
    binding = one(documents, "RoleBinding", "dtj-operator-profiles-edit")
    assert (binding["subjects"], binding["metadata"]["namespace"]) == (editors, "dtj-system")


SHARED = "/properties/global"
"""Other charts of an umbrella chart have values there too."""


def closed(schema, place=""):
    """Yield the places of objects with named properties that accept others."""
    if isinstance(schema, dict):
        if (
            "properties" in schema
            and schema.get("additionalProperties") is not False
            and schema.get("maxProperties") != 2
        ):
            yield place
        for name, below in schema.items():
            yield from closed(below, f"{place}/{name}")


def test_no_value_can_be_misspelt_but_those_that_charts_share():
    assert list(closed(json.loads((CHART / "values.schema.json").read_text()))) == [SHARED]


@pytest.mark.parametrize(("value", "said"), [
    ({"extraEnv": [{"name": "A", "valeu": "b"}]}, "valeu"),
    ({"extraArgs": ["workers"]}, "extraArgs"),
    ({"extraVolumes": [{"name": "a"}]}, "extraVolumes"),
    ({"extraVolumeMounts": [{"name": "a", "mountpath": "/a"}]}, "mountpath"),
    ({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone"}]}, "whenUnsatisfiable"),
    ({"podSecurityContext": {"runAsuser": 1}}, "runAsuser"),
    ({"securityContext": {"capabilities": {"drops": []}}}, "drops"),
    ({"networkPolicy": {"operators": True}}, "operators"),
    ({"networkPolicy": {"apiServerCIDRs": ["10.0.0.1"]}}, "apiServerCIDRs"),
    ({"global": {"imagePullSecrets": [{"nam": "a"}]}}, "imagePullSecrets"),
    ({"rbac": {"profileEditors": [{"kind": "Team", "name": "a"}]}}, "profileEditors"),
    ({"commonLabels": {"a": 1}}, "commonLabels"),
])  # fmt: skip
def test_a_misspelt_or_senseless_value_is_refused_by_name(render, value, said):
    with pytest.raises(ValueError, match=said):
        render(**value)
