"""The chart as the real helm renders it."""

import json
import shutil
import subprocess

import pytest
import yaml

from dtj_operator.api.crd import crd
from dtj_operator.app.preflight import NEEDED, POLICY_RIGHTS
from tests.support.chart import CHART, of_kind, one
from tests.support.rights import rights

pytestmark = pytest.mark.contract


def operator_rules(documents):
    """Return (namespace, rule) of every Role and ClusterRole that is bound to the operator."""
    bound = {
        (binding["metadata"].get("namespace", ""), binding["roleRef"]["name"])
        for binding in of_kind(documents, "RoleBinding", "ClusterRoleBinding")
    }
    return [
        (role["metadata"].get("namespace", ""), rule)
        for role in of_kind(documents, "Role", "ClusterRole")
        if (role["metadata"].get("namespace", ""), role["metadata"]["name"]) in bound
        for rule in role["rules"]
    ]


def granted(documents, namespace):
    return {
        (group, resource, verb)
        for place, rule in operator_rules(documents)
        if place == namespace
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_helm_finds_nothing_wrong(helm):
    subprocess.run([helm, "lint", "--strict", CHART], check=True, capture_output=True)


def test_the_crd_arrives_unchanged_but_for_helms_own_labels_and_stays_when_the_chart_goes(render):
    found = one(render(), "CustomResourceDefinition", "distributedtrainingjobs.dtj.dev")
    assert found["spec"] == crd()["spec"]
    assert found["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"


def test_the_crd_can_be_left_to_others(render):
    assert of_kind(render(crds__install=False), "CustomResourceDefinition") == []


@pytest.mark.parametrize("values", [{}, {"watchNamespaces": ["a", "b"]}])
def test_no_rule_has_a_wildcard_a_secret_or_a_way_into_pods(render, values):
    documents = render(**values)
    rules = [rule for role in of_kind(documents, "Role", "ClusterRole") for rule in role["rules"]]
    assert rules
    for rule in rules:
        words = {*rule["apiGroups"], *rule["resources"], *rule["verbs"]}
        assert not words & {"*", "secrets", "pods/exec", "pods/attach", "bind", "escalate", "impersonate"}


def test_the_operator_may_do_what_it_asks_for_at_its_start_and_little_more(render):
    asked = {
        (resource.group, f"{resource.plural}/{subresource}" if subresource else resource.plural, verb)
        for resource, subresource, verbs in NEEDED
        for verb in verbs
    }
    assert granted(render(), "") - asked == {
        ("dtj.dev", "distributedtrainingjobs/finalizers", "update"),
        ("", "nodes", "get"),
        ("", "nodes", "list"),
        ("", "nodes", "watch"),
    }
    assert asked <= granted(render(), "")


@pytest.mark.parametrize("namespaces", [[], ["a"]])
def test_with_a_network_policy_for_each_job_the_operator_is_told_so_and_may_make_them(render, namespaces):
    from dtj_operator.app.settings import parser, settings_from

    documents = render(networkPolicy__perJob=True, watchNamespaces=namespaces)
    (container,) = one(documents, "Deployment")["spec"]["template"]["spec"]["containers"]
    assert settings_from(parser().parse_args(container["args"]), {}).network_policy
    asked = {(resource.group, resource.plural, verb) for resource, _, verbs in POLICY_RIGHTS for verb in verbs}
    assert asked <= granted(documents, "".join(namespaces))


def test_leases_are_written_only_in_the_operators_own_namespace(render):
    documents = render()
    assert granted(documents, "dtj-system") == {
        ("coordination.k8s.io", "leases", verb) for verb in ("get", "create", "update")
    }
    assert granted(documents, "kube-node-lease") == {
        ("coordination.k8s.io", "leases", verb) for verb in ("get", "list", "watch")
    }


def test_only_the_lease_that_the_operator_is_told_to_hold_can_be_read_and_changed(render):
    from dtj_operator.app.settings import parser, settings_from

    for values in ({}, {"watchNamespaces": ["a"]}, {"fullnameOverride": "ours"}):
        documents = render(release="blue", **values)
        (deployment,) = of_kind(documents, "Deployment")
        arguments = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
        lease = settings_from(parser().parse_args(arguments), {}).lease_name
        rules = [rule for place, rule in operator_rules(documents) if place == "dtj-system"]
        assert [(rule.get("resourceNames"), rule["verbs"]) for rule in rules] == [
            ([lease], ["get", "update"]),
            (None, ["create"]),
        ]


def test_fault_plans_on_the_server_in_this_process_run_under_the_rights_of_the_chart(render):
    assert [
        (namespace, rule["apiGroups"], rule["resources"], rule.get("resourceNames"), rule["verbs"])
        for namespace, rules in sorted(rights())
        for rule in rules
    ] == [
        (namespace, rule["apiGroups"], rule["resources"], rule.get("resourceNames"), rule["verbs"])
        for namespace, rule in sorted(operator_rules(render()), key=lambda found: found[0])
    ]


def test_with_namespaces_to_watch_there_is_no_right_outside_of_them(render):
    documents = render(watchNamespaces=["a", "b"])
    assert of_kind(documents, "ClusterRoleBinding") == []
    assert {place for place, _ in operator_rules(documents)} == {"a", "b", "dtj-system"}
    assert granted(documents, "a") == granted(documents, "b")
    arguments = one(documents, "Deployment")["spec"]["template"]["spec"]["containers"][0]["args"]
    assert [word for word in arguments if word.startswith("--namespace")] == ["--namespace=a", "--namespace=b"]


def test_releases_of_one_name_for_different_namespaces_have_nothing_in_common(render):
    first = render("team-a", watchNamespaces=["a"])
    second = render("team-b", watchNamespaces=["b", "c"], crds__install=False)
    places = [
        {(each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"]) for each in documents}
        for documents in (first, second)
    ]
    assert places[0].isdisjoint(places[1])
    assert len(of_kind(second, "ClusterRole")) == 3


def test_releases_in_one_namespace_do_not_wait_for_each_others_lease(render):
    from dtj_operator.app.settings import parser, settings_from

    leases = set()
    for release, watched in (("a", ["team-a"]), ("b", ["team-b"]), ("c", []), ("d", [])):
        (deployment,) = of_kind(render(release=release, watchNamespaces=watched), "Deployment")
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        leases.add((bool(watched), settings_from(parser().parse_args(container["args"]), {}).lease_name))
    # Operators that watch all namespaces elect one leader.
    assert leases == {(True, "a-dtj-operator"), (True, "b-dtj-operator"), (False, "dtj-operator")}


def test_names_that_look_like_numbers_stay_words(render):
    documents = render("2026", watchNamespaces=["007"], serviceAccount__name="42", priorityClassName="1e3")
    assert {each["metadata"].get("namespace", "2026") for each in documents} == {"2026", "007"}
    assert one(documents, "ServiceAccount", "42")
    pod = one(documents, "Deployment")["spec"]["template"]["spec"]
    assert (pod["serviceAccountName"], pod["priorityClassName"]) == ("42", "1e3")


@pytest.mark.parametrize("release", ["2026", "my.release"])
def test_a_release_whose_name_cannot_name_a_service_is_refused_with_the_way_out(render, release):
    with pytest.raises(ValueError, match=f"{release}-dtj-operator cannot name a Service: .*fullnameOverride"):
        render(release=release)
    assert one(render(release=release, fullnameOverride="ours"), "Service", "ours-metrics")


def test_a_chart_that_depends_on_this_one_may_leave_it_out(helm, tmp_path):
    shutil.copytree(CHART, tmp_path / "charts" / "dtj-operator")
    depends = {"name": "dtj-operator", "version": "0.1.0", "condition": "dtj-operator.enabled"}
    chart = {"apiVersion": "v2", "name": "platform", "version": "1.0.0", "dependencies": [depends]}
    (tmp_path / "Chart.yaml").write_text(yaml.safe_dump(chart))
    for enabled in (True, False):
        command = [helm, "template", "ours", tmp_path, "--set", f"dtj-operator.enabled={json.dumps(enabled)}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert ("kind: Deployment" in done.stdout, done.stderr) == (enabled, "")


def test_every_role_is_bound_to_the_account_that_the_pod_runs_as(render):
    documents = render()
    account = one(documents, "Deployment")["spec"]["template"]["spec"]["serviceAccountName"]
    for binding in of_kind(documents, "RoleBinding", "ClusterRoleBinding"):
        assert binding["subjects"] == [{"kind": "ServiceAccount", "name": account, "namespace": "dtj-system"}]
    assert one(documents, "ServiceAccount", account)


def test_an_account_that_is_there_is_named_as_other_pods_run_as_the_default_one(render):
    documents = render(serviceAccount__create=False, serviceAccount__name="ours")
    assert of_kind(documents, "ServiceAccount") == []
    assert one(documents, "Deployment")["spec"]["template"]["spec"]["serviceAccountName"] == "ours"
    with pytest.raises(ValueError, match=r"name the account that is there in serviceAccount\.name"):
        render(serviceAccount__create=False)


def test_the_pod_meets_the_restricted_standard_and_mounts_its_token_alone(render):
    pod = one(render(), "Deployment")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert pod["automountServiceAccountToken"] is False
    assert {next(iter(set(volume) - {"name"})) for volume in pod["volumes"]} == {"projected", "emptyDir"}


def test_probes_and_metrics_are_on_the_ports_of_the_contract(render):
    documents = render()
    (container,) = one(documents, "Deployment")["spec"]["template"]["spec"]["containers"]
    assert {port["name"]: port["containerPort"] for port in container["ports"]} == {"metrics": 8080, "health": 8081}
    assert container["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "health"}
    assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "health"}
    assert one(documents, "Service", "dtj-operator-metrics")["spec"]["ports"][0]["port"] == 8080


def test_the_arguments_are_ones_that_the_operator_takes(render):
    from dtj_operator.app.settings import parser, settings_from

    (container,) = one(render(watchNamespaces=["a"]), "Deployment")["spec"]["template"]["spec"]["containers"]
    settings = settings_from(parser().parse_args(container["args"]), {})
    assert settings.namespaces == ("a",)
    assert settings.leader_elect
    assert settings.log_format == "json"


def test_a_second_replica_brings_a_disruption_budget(render):
    assert of_kind(render(), "PodDisruptionBudget") == []
    budget = one(render(replicas=2), "PodDisruptionBudget")["spec"]
    assert (budget["maxUnavailable"], budget["unhealthyPodEvictionPolicy"]) == (1, "AlwaysAllow")


def test_users_get_roles_of_their_own_that_join_those_of_kubernetes(render):
    documents = render()
    for name in ("view", "edit", "admin"):
        role = one(documents, "ClusterRole", f"dtj-operator-{name}")
        assert role["metadata"]["labels"][f"rbac.authorization.k8s.io/aggregate-to-{name}"] == "true"
    assert not any(
        label.startswith("rbac.authorization.k8s.io/")
        for role in of_kind(render(rbac__aggregateUserRoles=False), "ClusterRole")
        for label in role["metadata"]["labels"]
    )


@pytest.mark.parametrize(("value", "said"), [
    ({"replica": 2}, "replica"),
    ({"image__tagg": "x"}, "tagg"),
    ({"settings__logLevel": "loud"}, "logLevel"),
    ({"watchNamespaces": ["Not A Name"]}, "watchNamespaces"),
    ({"image__digest": "latest"}, "digest"),
    ({"nameOverride": "My_Operator"}, "nameOverride"),
])  # fmt: skip
def test_a_value_that_is_misspelt_or_senseless_is_refused_by_name(render, value, said):
    with pytest.raises(ValueError, match=said):
        render(**value)


def test_a_digest_wins_over_the_tag(render):
    digest = "sha256:" + "0" * 64
    documents = render(image__digest=digest, image__tag="ignored")
    assert (
        one(documents, "Deployment")["spec"]["template"]["spec"]["containers"][0]["image"] == f"dtj-operator@{digest}"
    )
