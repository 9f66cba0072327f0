"""Writes plain manifests of the operator, rendered from the Helm chart with its default values (`make manifests`).

deploy/dtj-operator.yaml has all but the CRD, which crds/ has; deploy/kustomization.yaml makes a base of both.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from e2e.cluster import binaries

ROOT = Path(__file__).resolve().parent.parent
CHART = ROOT / "charts" / "dtj-operator"
TARGET = ROOT / "deploy" / "dtj-operator.yaml"
NAMESPACE = "dtj-system"
HELMS_LABELS = ("app.kubernetes.io/managed-by", "helm.sh/chart")
HELMS_ANNOTATION = "helm.sh/resource-policy"
HEADER = "# Rendered from charts/dtj-operator by `make manifests`; change that, not this.\n"


def manifests() -> str:
    """Return the manifests: the namespace, and the chart's objects without Helm's own labels."""
    command = [str(binaries.path("helm")), "template", "dtj-operator", str(CHART), "--namespace", NAMESPACE]
    command += ["--skip-tests", "--set", "crds.install=false"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    restricted = {"pod-security.kubernetes.io/enforce": "restricted"}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": restricted}}
    rendered = [document for document in yaml.safe_load_all(done.stdout) if document]
    documents = [namespace, *map(_without_helm, rendered)]
    return HEADER + yaml.safe_dump_all(documents, sort_keys=False, width=120, allow_unicode=True)


def _without_helm(document: dict[str, Any]) -> dict[str, Any]:
    template = document.get("spec", {}).get("template", {})
    for metadata in (document["metadata"], template.get("metadata", {})):
        for label in HELMS_LABELS:
            metadata.get("labels", {}).pop(label, None)
    annotations = document["metadata"].get("annotations", {})
    annotations.pop(HELMS_ANNOTATION, None)
    if not annotations:
        document["metadata"].pop("annotations", None)
    return document


def main() -> int:
    TARGET.write_text(manifests(), encoding="utf-8")
    print(TARGET.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main())
