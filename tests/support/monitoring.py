"""Alerts, dashboard and scrape configs as the project ships them, and alerts that fire within seconds."""

from __future__ import annotations

import json
import re
from typing import Any, Final

import yaml

from tests.support.chart import CHART

DOCS: Final = CHART.parents[1] / "docs"
DASHBOARD: Final = CHART / "dashboards" / "dtj.json"
QUICK_COUNTS: Final = {"> 5": "> 1", "> 2": "> 1", "> 10": "> 1"}
"""Less than what the alerts count or wait for."""


def alert_groups() -> list[dict[str, Any]]:
    """Return the groups of rules of the chart."""
    groups: list[dict[str, Any]] = yaml.safe_load((CHART / "files" / "alerts.yaml").read_text())
    return groups


def alerts() -> list[dict[str, Any]]:
    """Return all alerts."""
    return [rule for group in alert_groups() for rule in group["rules"]]


def quick_alerts(window: str) -> list[dict[str, Any]]:
    """Return the groups with a short window and small counts; each alert fires at its second evaluation."""
    groups = alert_groups()
    for rule in (rule for group in groups for rule in group["rules"]):
        expression = quick(rule["expr"], window)
        for slow, short in QUICK_COUNTS.items():
            expression = re.sub(rf"{slow}$", short, expression)
        rule |= {"expr": expression, "for": "1s"}
    return groups


def quick(expression: str, window: str) -> str:
    """Return a query with a short window, for all jobs."""
    expression = re.sub(r"\[(\d+[mh]|\$__rate_interval)\]", f"[{window}]", expression)
    expression = re.sub(r"offset \d+h", f"offset {window}", expression)
    return re.sub(r"\$(namespace|name)\b", ".*", expression)


def panels() -> list[dict[str, Any]]:
    """Return the panels of the dashboard, without rows."""
    return [panel for panel in json.loads(DASHBOARD.read_text())["panels"] if panel["type"] != "row"]


def scrape_configs() -> dict[str, dict[str, Any]]:
    """Return the scrape configs of docs/howto/operate.md by name."""
    blocks = re.findall(r"```yaml\n(.*?)```", (DOCS / "howto" / "operate.md").read_text(), re.DOTALL)
    (found,) = [yaml.safe_load(block) for block in blocks if block.startswith("scrape_configs:")]
    return {each["job_name"]: each for each in found["scrape_configs"]}


def targets(pod: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what Prometheus discovers of a pod by `role: pod`, with the labels that the docs use.

    A target for each port of each container, and one for a container without ports; none for a pod without an address.
    """
    metadata, ip = pod["metadata"], pod["status"].get("podIP")
    own = {
        "__meta_kubernetes_namespace": metadata["namespace"],
        "__meta_kubernetes_pod_name": metadata["name"],
        "__meta_kubernetes_pod_ip": ip,
        "__meta_kubernetes_pod_phase": pod["status"]["phase"],
        **{
            f"__meta_kubernetes_pod_label_{re.sub(r'[^a-zA-Z0-9_]', '_', name)}": value
            for name, value in metadata.get("labels", {}).items()
        },
    }
    addresses = [
        (container["name"], f"{ip}:{port['containerPort']}" if port else ip)
        for container in pod["spec"]["containers"]
        for port in container.get("ports") or [None]
        if ip
    ]
    return [
        {"targets": [address], "labels": own | {"__meta_kubernetes_pod_container_name": name}}
        for name, address in addresses
    ]
