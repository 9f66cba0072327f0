"""The demo on an existing cluster with a real API server: what no demo created is left unchanged."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator

import pytest

from e2e import chart
from e2e.cluster import binaries, volumes
from e2e.cluster.api_client import ApiClient, core_path, jobs_path
from e2e.cluster.control_plane import start_control_plane
from e2e.cluster.existing import ExistingCluster
from e2e.demo import demo_steps
from e2e.failure import Failure
from e2e.jobs import Variation, manifest

pytestmark = [pytest.mark.contract, pytest.mark.timeout(1800)]

NAMESPACES = "/api/v1/namespaces"
IMAGE = "team/dtj-operator:1"


@pytest.fixture(scope="module")
def cluster() -> Iterator[ExistingCluster]:
    """Start a cluster with the operator as getting-started installs it, and the controller that finalizes claims."""
    with start_control_plane() as running:
        running.start_controllers("persistentvolumeclaim-protection-controller")
        found = ExistingCluster("theirs", running.kubeconfig)
        install(found)
        yield found


@pytest.fixture
def api(cluster: ExistingCluster) -> ApiClient:
    return ApiClient(cluster.kubeconfig)


def helm(cluster: ExistingCluster, *words: str) -> str:
    place = ["--kubeconfig", str(cluster.kubeconfig), "--namespace", chart.NAMESPACE]
    done = subprocess.run([binaries.path("helm"), *words, *place], capture_output=True, text=True, check=True)
    return done.stdout


def install(cluster: ExistingCluster, **values: object) -> None:
    flags = [word for name, value in values.items() for word in ("--set-json", f"{name}={json.dumps(value)}")]
    helm(cluster, "install", chart.RELEASE, str(chart.CHART), "--create-namespace", *flags)


def in_namespace(name: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Give each test's demo its own namespace."""
    monkeypatch.setattr(demo_steps, "NAMESPACE", name)
    return core_path(name, "persistentvolumeclaims", "checkpoints")


def test_what_a_demo_makes_has_its_label_and_the_next_one_makes_it_again(
    cluster: ExistingCluster, api: ApiClient, monkeypatch: pytest.MonkeyPatch
):
    claim = in_namespace("demo", monkeypatch)
    demo_steps.prepare_existing_cluster(cluster, api, IMAGE)
    made = api.get(claim)
    job = demo_steps.start(api, Variation("team/dtj-trainer:1"))
    for each in (api.get(f"{NAMESPACES}/demo"), made, job.read()):
        assert demo_steps.LABELS.items() <= each["metadata"]["labels"].items()
    demo_steps.prepare_existing_cluster(cluster, api, IMAGE)
    assert api.get(claim)["metadata"]["uid"] != made["metadata"]["uid"]
    assert api.find(jobs_path("demo", "digits")) is None


def test_an_operator_that_is_there_is_used_as_it_is(
    cluster: ExistingCluster, api: ApiClient, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    in_namespace("beside", monkeypatch)
    before = helm(cluster, "get", "all", chart.RELEASE)
    demo_steps.prepare_existing_cluster(cluster, api, IMAGE)
    assert helm(cluster, "get", "all", chart.RELEASE) == before
    assert f"used as it is, not {IMAGE}" in capsys.readouterr().err


def test_an_operator_that_does_not_work_in_the_demos_namespace_is_named(
    cluster: ExistingCluster, api: ApiClient, monkeypatch: pytest.MonkeyPatch
):
    in_namespace("unwatched", monkeypatch)
    monkeypatch.setattr(chart, "NAMESPACE", "dtj-second")
    api.post(NAMESPACES, {"metadata": {"name": "team-a"}})
    install(cluster, watchNamespaces=["team-a"], crds={"install": False})
    with pytest.raises(Failure, match="works in team-a alone"):
        demo_steps.prepare_existing_cluster(cluster, api, IMAGE)
    assert api.find(f"{NAMESPACES}/unwatched") is None


def test_an_operator_whose_installation_failed_is_named():
    with pytest.raises(Failure, match=r"is failed, not deployed: .*`helm uninstall dtj-operator -n dtj-system`"):
        demo_steps.check_release({"info": {"status": "failed"}})


@pytest.mark.parametrize("kind", ["namespace", "claim", "job"])
def test_what_no_demo_made_is_refused_before_anything_is_changed(
    kind: str, cluster: ExistingCluster, api: ApiClient, monkeypatch: pytest.MonkeyPatch
):
    space = f"theirs-{kind}"
    claim = in_namespace(space, monkeypatch)
    api.post(NAMESPACES, {"metadata": {"name": space, "labels": {} if kind == "namespace" else demo_steps.LABELS}})
    if kind == "claim":
        api.post(core_path(space, "persistentvolumeclaims"), volumes.claim(space, "checkpoints", storage_class=""))
    if kind == "job":
        api.post(jobs_path(space), manifest())
    paths = (f"{NAMESPACES}/{space}", claim, jobs_path(space, "digits"))
    before = [api.find(path) for path in paths]
    with pytest.raises(Failure, match=rf"The {kind} .* was not made by a demo"):
        demo_steps.prepare_existing_cluster(cluster, api, IMAGE)
    assert [api.find(path) for path in paths] == before
