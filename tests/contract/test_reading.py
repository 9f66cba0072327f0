"""The output of kubectl explain, get and describe, and the page that shows it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dtj_operator.api.crd import crd
from tests.contract.operator_under_test import Jobs, operator

if TYPE_CHECKING:
    from collections.abc import Iterator

    from e2e.cluster.control_plane import ControlPlane

pytestmark = [pytest.mark.contract, pytest.mark.timeout(600)]

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "kubectl.md"
NAMESPACE = "reading"


def shown(command: str) -> str:
    """Return what the page shows below `$ kubectl command`."""
    found = re.search(rf"^\$ kubectl {re.escape(command)}\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert found is not None, f"{PAGE.name} does not show `kubectl {command}`"
    return found[1]


@pytest.fixture(scope="module")
def kubectl(strict_control_plane: ControlPlane, account: Path) -> Iterator[Any]:
    """Run the job of the page, two workers of which one has failed once; returns kubectl."""
    jobs = Jobs(strict_control_plane, NAMESPACE)
    with operator(account):
        jobs.create("cifar10", scheduler="none", checkpoint={"directory": "/checkpoints"})
        jobs.until(lambda: len(jobs.pods()) == 2, "two pods")
        for number in range(2):
            jobs.start_pod(f"cifar10-worker-{number}")
        jobs.until(lambda: jobs.holds("cifar10", "Running"), "a running job")
        failed = jobs.pods()["cifar10-worker-1"]["metadata"]["uid"]
        jobs.end_pod("cifar10-worker-1", 1)
        jobs.until(lambda: _uid(jobs.pods().get("cifar10-worker-1")) not in {"", failed}, "a new pod")
        jobs.start_pod("cifar10-worker-1")
        jobs.until(
            lambda: jobs.status("cifar10")["restarts"]["total"] == 1 and jobs.holds("cifar10", "Running"), "recovery"
        )
        jobs.until(lambda: len(jobs.events("cifar10")) == 5, "five events")
        yield lambda command: strict_control_plane.kubectl("-n", NAMESPACE, *command.split())


def test_the_list_has_the_columns_of_the_contract(kubectl: Any):
    header, row = kubectl("get dtj").splitlines()
    assert header.split() == ["NAME", "STATE", "STRATEGY", "WORKERS", "RESTARTS", "STEP", "AGE"]
    assert row.split()[:5] == ["cifar10", "Running", "MultiWorkerMirrored", "2/2", "1"]
    assert header.split() == shown("get dtj").splitlines()[0].split()


def test_the_wide_list_adds_recoveries_in_place_and_the_message(kubectl: Any):
    header, row = kubectl("get dtj -o wide").splitlines()
    assert header.split()[-3:] == ["AGE", "IN-PLACE", "MESSAGE"]
    assert re.search(r"Recovered from UserError after \d+\.\d s\.$", row.strip())
    assert header.split() == shown("get dtj -o wide").splitlines()[0].split()


def test_the_job_is_found_by_its_short_name_and_its_categories(kubectl: Any):
    for name in ("dtj", "distributedtrainingjob", "training", "all"):
        assert "cifar10" in kubectl(f"get {name}")


def test_describe_tells_state_and_events_as_the_page_shows(kubectl: Any):
    told = kubectl("describe dtj cifar10")
    assert _sections(told) == _sections(shown("describe dtj cifar10"))
    events = [line.split()[1] for line in told[told.index("Events:") :].splitlines()[3:]]
    assert events == ["Created", "Started", "PodFailed", "Restarting", "Recovered"]


def test_explain_names_every_field_of_the_spec(kubectl: Any):
    told = kubectl("explain dtj.spec --recursive")
    fields = [line.split()[0] for line in told[told.index("FIELDS:") :].splitlines()[1:] if "<" in line]
    version = crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert fields == list(_fields(version["properties"]["spec"]))
    page = [line.split()[0] for line in shown("explain dtj.spec --recursive").splitlines() if "<" in line]
    ours = list(_fields(version["properties"]["spec"], opaque={"template"}))
    assert page == ["FIELD:", *ours]


def _uid(pod: dict[str, Any] | None) -> str:
    return str(pod["metadata"]["uid"]) if pod else ""


def _sections(text: str) -> list[str]:
    """Return the names before the colons in the status."""
    status = text[text.index("\nStatus:") : text.index("\nEvents:")]
    return [line.split(":")[0].strip() for line in status.splitlines() if ":" in line]


def _fields(schema: dict[str, Any], opaque: frozenset[str] | set[str] = frozenset()) -> Iterator[str]:
    """Return every field below a schema, in the order of kubectl explain."""
    inner = schema
    while "properties" not in inner:
        below = inner.get("items") or inner.get("additionalProperties")
        if not isinstance(below, dict):
            return
        inner = below
    for name in sorted(inner["properties"]):
        yield name
        if name not in opaque:
            yield from _fields(inner["properties"][name], opaque)
