"""The pictures in docs/reference show the present resource, and load nothing from the network."""

import html
import re
from pathlib import Path

import pytest

from dtj_operator.api.crd import COLUMNS, crd
from tests.support import monitoring
from tools.pictures import DASHBOARD, DEMO, about_the_job
from tools.terminal import beside, draw

REFERENCE = Path(__file__).resolve().parents[3] / "docs" / "reference"
DRAWN = sorted((REFERENCE / "pictures").glob("*.svg"))
NAMESPACE = "http://www.w3.org/2000/svg"


def said(picture: Path) -> str:
    """Return the text of a picture, span after span."""
    spans = re.findall(r"<text[^>]*>([^<]*\S[^<]*)</text>", picture.read_text())
    return html.unescape("\n".join(spans)).replace("\xa0", " ")


@pytest.mark.parametrize("picture", DRAWN, ids=lambda picture: picture.stem)
def test_a_picture_is_shown_and_loads_nothing(picture: Path):
    assert set(re.findall(r"\w+://[^\s\"<)]*", picture.read_text())) == {NAMESPACE}
    assert "url(" not in picture.read_text().replace("url(#", "")
    assert f"(pictures/{picture.name})" in (REFERENCE / "kubectl.md").read_text()


def test_the_readme_shows_a_job_that_trains_through_a_killed_worker_and_loads_nothing():
    assert f"({DEMO.relative_to(REFERENCE.parents[1])})" in (REFERENCE.parents[1] / "README.md").read_text()
    assert set(re.findall(r"\w+://[^\s\"<)]*", DEMO.read_text())) == {NAMESPACE}
    assert re.search(r"kill -9 .* train again after .*Succeeded:", said(DEMO), re.DOTALL)


def test_the_picture_of_the_dashboard_has_every_panel_with_data_and_loads_nothing():
    assert f"(../pictures/{DASHBOARD.name})" in (REFERENCE.parent / "howto" / "alerts.md").read_text()
    assert set(re.findall(r"\w+://[^\s\"<)]*", DASHBOARD.read_text())) == {NAMESPACE}
    shown = said(DASHBOARD).splitlines()
    assert [panel["title"] for panel in monitoring.panels() if panel["title"] not in shown] == []
    assert DASHBOARD.read_text().count("<polyline") > len(monitoring.panels())


@pytest.mark.parametrize(("name", "most"), [("get", 0), ("wide", 1)])
def test_the_pictures_of_the_list_have_the_columns_of_the_definition(name: str, most: int):
    columns = [column[0].upper() for column in COLUMNS if column[3] <= most]
    assert " ".join(["NAME", *columns]) in re.sub(r" +", " ", said(REFERENCE / "pictures" / f"{name}.svg"))


def test_the_picture_of_explain_has_every_field_of_the_spec():
    shown = re.findall(r"(\w+)\s+<[\w\[\]]+", said(REFERENCE / "pictures" / "explain.svg"))
    schema = str(crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"])
    assert len(shown) > 100
    assert [field for field in shown if f"'{field}':" not in f"{schema}'spec':"] == []


def test_the_picture_of_describe_has_spec_status_and_events():
    assert re.findall(r"^(Spec|Status|Events):", said(REFERENCE / "pictures" / "describe.svg"), re.MULTILINE) == [
        "Spec",
        "Status",
        "Events",
    ]


def test_output_is_drawn_as_it_is(tmp_path: Path):
    draw(tmp_path / "some.svg", "kubectl get <it>", "NAME   AGE\na      1s\n")
    assert said(tmp_path / "some.svg").splitlines() == ["$ kubectl get <it>", "NAME   AGE", "a      1s"]


def test_lines_of_the_picture_may_be_coloured(tmp_path: Path):
    draw(tmp_path / "some.svg", "make demo", "one\nkill -9 7\n", styles={"kill -9": "bold red"})
    (coloured,) = re.findall(r'class="(some-r\d+)"[^>]*>kill', (tmp_path / "some.svg").read_text())
    assert re.search(rf"\.{coloured} {{ fill: #[0-9a-f]+;font-weight: bold }}", (tmp_path / "some.svg").read_text())


def test_the_picture_of_the_demo_ends_with_the_result_and_names_no_path_of_a_machine():
    output = "  Running 5/9 a\n\n  Succeeded: 9 of 9 steps\n  54 s in all; loss curve /somewhere/demo-loss.png\n"
    assert about_the_job(output) == "  Running 5/9 a\n\n  Succeeded: 9 of 9 steps"


def test_the_picture_of_the_demo_leaves_out_progress_but_nothing_else():
    progress = [f"  Running      {step}/9  digits-worker-0 train" for step in range(7)]
    output = "\n".join([*progress, "  kill -9 7: gone", *progress[:3], "  Succeeded: 9 of 9 steps"])
    shown = [*progress[:2], "  …", *progress[-2:], "  kill -9 7: gone", *progress[:3], "  Succeeded: 9 of 9 steps"]
    assert about_the_job(output).splitlines() == shown


def test_long_output_stands_in_columns_that_are_read_downwards():
    assert beside(["a", "bb", "c"], 2) == ["a     c", "bb"]
