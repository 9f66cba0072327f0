"""What is generated from the chart is up to date: its README, and the plain manifests."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from dtj_operator.api.crd import crd
from e2e.cluster import binaries
from tests.support.chart import CHART
from tools import chart_readme, manifests


def test_the_readme_is_what_the_generator_writes():
    assert chart_readme.README.read_text() == chart_readme.readme(), (
        "the chart's values have changed: run `make generate`"
    )


def test_a_description_goes_on_in_the_next_lines_and_stands_for_all_below_its_key():
    text = "# A comment.\n# @section -- One\na:\n  # -- First\n  # and second.\n  b: {c: 1}\n# -- Third.\nd: x\n"
    assert [value.row for value in chart_readme.values(text)] == [
        '| a.b | object | `{"c": 1}` | First and second. |',
        '| d | string | `"x"` | Third. |',
    ]
    assert {value.section for value in chart_readme.values(text)} == {"One"}


def test_a_value_without_a_description_is_named():
    with pytest.raises(ValueError, match=r"a\.b has no description in values\.yaml"):
        list(chart_readme.values("a:\n  b: 1\n"))


@pytest.mark.contract
def test_the_plain_manifests_are_those_of_the_chart():
    assert manifests.TARGET.read_text() == manifests.manifests(), "the chart has changed: run `make manifests`"


@pytest.mark.contract
def test_an_overlay_sets_the_image_of_the_kustomize_base(tmp_path: Path):
    for folder in ("crds", "deploy"):
        shutil.copytree(CHART.parents[1] / folder, tmp_path / folder)
    image = {"name": "dtj-operator", "newName": "example.org/dtj-operator", "newTag": "2"}
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump({"resources": ["deploy"], "images": [image]}))
    command = [str(binaries.path("kubectl")), "kustomize", str(tmp_path)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    documents = list(yaml.safe_load_all(said))
    assert {"Namespace", "CustomResourceDefinition", "Deployment", "ClusterRole"} <= {
        each["kind"] for each in documents
    }
    (deployment,) = [each for each in documents if each["kind"] == "Deployment"]
    assert deployment["spec"]["template"]["spec"]["containers"][0]["image"] == "example.org/dtj-operator:2"
    assert "helm" not in str([each["metadata"] for each in documents]).lower()


def test_artifact_hub_is_told_of_the_crd_that_there_is_and_shown_an_example_that_is_tested():
    annotations = yaml.safe_load((CHART / "Chart.yaml").read_text())["annotations"]
    assert {name.partition("/")[0] for name in annotations} == {"artifacthub.io"}
    assert {type(value) for value in annotations.values()} == {str}
    (told,) = yaml.safe_load(annotations["artifacthub.io/crds"])
    definition = crd()
    assert (told["name"], told["kind"], told["version"]) == (
        definition["metadata"]["name"],
        definition["spec"]["names"]["kind"],
        definition["spec"]["versions"][0]["name"],
    )
    example = CHART.parents[1] / "examples" / "hello.yaml"
    assert yaml.safe_load(annotations["artifacthub.io/crdsExamples"]) == [yaml.safe_load(example.read_text())]
