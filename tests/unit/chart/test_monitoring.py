"""Monitors, alerts and dashboard of the chart."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from e2e.cluster import debian_programs
from tests.support import monitoring
from tests.support.chart import CHART, of_kind, one
from tests.support.monitoring import DOCS

pytestmark = pytest.mark.contract

ON = {"enabled": True}
KINDS = ("ServiceMonitor", "PodMonitor", "ClusterPodMonitoring", "PodMonitoring", "ClusterRules", "PrometheusRule")
DASHBOARD = json.loads(monitoring.DASHBOARD.read_text())
PANELS = monitoring.panels()
ALERTS = monitoring.alerts()
EXPRESSIONS = [rule["expr"] for rule in ALERTS] + [query["expr"] for panel in PANELS for query in panel["targets"]]


def rules(documents, kind="PrometheusRule"):
    (found,) = of_kind(documents, kind)
    return {rule["alert"]: rule for group in found["spec"]["groups"] for rule in group["rules"]}


def test_nothing_of_it_is_there_unless_asked_for(render):
    documents = render()
    assert of_kind(documents, *KINDS, "ConfigMap") == []


def test_the_service_monitor_selects_the_service_of_the_metrics(render):
    values = {"enabled": True, "interval": "15s", "labels": {"release": "prometheus"}}
    documents = render(metrics__serviceMonitor=values)
    monitor, service = one(documents, "ServiceMonitor"), one(documents, "Service", "dtj-operator-metrics")
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint == {"port": service["spec"]["ports"][0]["name"], "honorLabels": True, "interval": "15s"}
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    with pytest.raises(ValueError, match=r"set metrics\.service to true"):
        render(metrics={"serviceMonitor": ON, "service": False})


@pytest.mark.parametrize(("namespaces", "selected"), [([], {"any": True}), (["a", "b"], {"matchNames": ["a", "b"]})])
def test_the_pod_monitor_looks_where_the_operator_works(render, namespaces, selected):
    monitor = one(render(metrics__podMonitor=ON, watchNamespaces=namespaces), "PodMonitor", "dtj-operator-trainers")
    assert monitor["spec"]["namespaceSelector"] == selected
    assert monitor["spec"]["selector"] == {"matchExpressions": [{"key": "dtj.dev/job-uid", "operator": "Exists"}]}


def test_the_scrape_configs_of_the_docs_relabel_as_the_pod_monitor_does(render):
    monitor = one(render(metrics__podMonitor=ON), "PodMonitor", "dtj-operator-trainers")
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    names = {"sourceLabels": "source_labels", "targetLabel": "target_label"}
    monitored = [{names.get(key, key): value for key, value in rule.items()} for rule in endpoint["relabelings"]]
    documented = monitoring.scrape_configs()["dtj-trainer"]["relabel_configs"]
    # The Prometheus operator adds the labels namespace, pod and container, and keeps the pods that run.
    own = [rule for rule in monitored if rule.get("action") != "labeldrop" and rule.get("target_label") != "job"]
    assert [rule for rule in documented if rule in own] == own
    assert [rule.get("target_label", rule.get("action")) for rule in documented if rule not in own] == [
        "keep",
        "keep",
        "namespace",
        "pod",
    ]


def test_google_monitors_the_same_pods_with_the_same_labels(render):
    cluster_wide = render(metrics__googleManaged=ON)
    operator = one(cluster_wide, "ClusterPodMonitoring")["spec"]
    trainers = one(cluster_wide, "ClusterPodMonitoring", "dtj-operator-trainers")["spec"]
    assert operator["targetLabels"] == {"metadata": []}
    (endpoint,) = one(render(metrics__podMonitor=ON), "PodMonitor", "dtj-operator-trainers")["spec"][
        "podMetricsEndpoints"
    ]
    from_pods = {
        (rule["sourceLabels"][0].removeprefix("__meta_kubernetes_pod_label_"), rule["targetLabel"])
        for rule in endpoint["relabelings"]
        if rule.get("sourceLabels", [""])[0].startswith("__meta_kubernetes_pod_label_")
    }
    assert (
        {(re.sub(r"\W", "_", each["from"]), each["to"]) for each in trainers["targetLabels"]["fromPod"]}
        == from_pods
        == {("dtj_dev_job_name", "name"), ("dtj_dev_role", "role"), ("dtj_dev_index", "index")}
    )
    assert trainers["endpoints"] == [{"port": 9401, "interval": "30s"}]
    some = of_kind(render(metrics__googleManaged=ON, watchNamespaces=["a", "b"]), "PodMonitoring")
    assert [each["metadata"]["namespace"] for each in some] == ["a", "b"]


def test_both_kinds_of_rules_have_all_alerts_and_obey_the_values(render):
    documents = render(metrics={"prometheusRule": ON, "googleManaged": {"enabled": True, "rules": True}})
    assert rules(documents) == rules(documents, "ClusterRules")
    assert list(rules(documents)) == [rule["alert"] for rule in ALERTS]
    changes = {"DtjDataSlow": {"enabled": False}, "DtjOperatorDown": {"for": "1m", "severity": "page"}}
    page = "https://example.org/alerts.md"
    changed = rules(
        render(metrics__prometheusRule={**ON, "alerts": changes, "ruleLabels": {"team": "ml"}, "runbookUrl": page})
    )
    assert set(rules(documents)) - set(changed) == {"DtjDataSlow"}
    down = changed["DtjOperatorDown"]
    assert (down["for"], down["labels"]) == ("1m", {"severity": "page", "team": "ml"})
    assert down["annotations"]["runbook_url"] == f"{page}#dtjoperatordown"
    with pytest.raises(ValueError, match="DtjNothing"):
        render(metrics__prometheusRule__alerts={"DtjNothing": {"enabled": False}})


def test_prometheus_accepts_the_rules(render, tmp_path: Path):
    (found,) = of_kind(render(metrics__prometheusRule=ON), "PrometheusRule")
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump(found["spec"]))
    done = subprocess.run(
        [debian_programs.ensure("prometheus", "promtool") / "promtool", "check", "rules", file],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, f"{len(ALERTS)} rules found" in done.stdout) == (0, True), done.stdout + done.stderr


@pytest.mark.parametrize("alert", ALERTS, ids=lambda rule: rule["alert"])
def test_an_alert_has_a_section_that_says_what_to_do(alert):
    sections = re.split(r"^#+ (.*)$", (DOCS / "howto" / "alerts.md").read_text(), flags=re.MULTILINE)
    text = dict(zip(sections[1::2], sections[2::2], strict=True))[alert["alert"]]
    assert re.search(r"^(1\. |\| )", text, re.MULTILINE)
    assert alert["labels"]["severity"] in {"critical", "warning", "info"}
    assert alert["annotations"].keys() == {"summary", "description"}


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_a_query_asks_for_metrics_that_the_reference_lists(expression):
    reference = "".join((DOCS / "reference" / page).read_text() for page in ("metrics.md", "dtj-run.md"))
    listed = set(re.findall(r"`(\w+)(?:\{\w+\})?`", reference)) | {"process_resident_memory_bytes"}
    plain = re.sub(r'"[^"]*"|\$\w+', "", expression)
    named = {
        re.sub(r"_(bucket|sum|count)$", "", name)
        for name in re.findall(r"\b(?:dtj|process|controller|workqueue|rest|leader)_\w+", plain)
    }
    assert named
    assert named <= listed


def test_the_dashboard_is_a_config_map_that_grafanas_sidecar_finds(render):
    found = one(render(metrics__dashboards=ON), "ConfigMap", "dtj-operator-dashboards")
    assert found["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert json.loads(found["data"]["dtj.json"]) == DASHBOARD


def test_the_panels_of_the_dashboard_do_not_overlap_and_follow_its_variables():
    cells = [
        (x, y)
        for each in DASHBOARD["panels"]
        for x in range(each["gridPos"]["x"], each["gridPos"]["x"] + each["gridPos"]["w"])
        for y in range(each["gridPos"]["y"], each["gridPos"]["y"] + each["gridPos"]["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
    for key in ("id", "title"):
        assert len({each[key] for each in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    for each in PANELS:
        assert {query["datasource"]["uid"] for query in each["targets"]} == {"${datasource}"}
    used = set(re.findall(r"\$(\w+)", " ".join(EXPRESSIONS))) - {"labels", "value", "__rate_interval"}
    assert used == {each["name"] for each in DASHBOARD["templating"]["list"]} - {"datasource"}


def test_the_values_can_change_every_alert_and_no_other():
    schema = json.loads((CHART / "values.schema.json").read_text())
    changes = schema["properties"]["metrics"]["properties"]["prometheusRule"]["properties"]["alerts"]
    assert changes["propertyNames"]["enum"] == [rule["alert"] for rule in ALERTS]
