"""What `dtj convert` prints is accepted to the last field: the job, and the pods that the operator makes of it.

Jobs by the real API server and by the one that the tests carry in their own process; pods by the real one.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dtj.cli.manifests import dump, parse
from dtj.convert import convert
from dtj_operator.api.job import Job
from dtj_operator.builders.pod import build_pod, overridden_fields
from e2e.cluster.api_client import ApiClient, ApiError, core_path, jobs_path
from e2e.cluster.control_plane import ControlPlane
from tests.support.apiserver import ApiServer
from tests.support.apiserver.thread import in_a_thread
from tests.support.foreign_jobs import TFJOBS, VOLCANO_JOBS

NAMESPACE = "team"
STRICT = "fieldValidation=Strict&dryRun=All"
JOBS = {f"TFJob: {name}": job for name, job in TFJOBS.items()} | {
    f"Volcano: {n}": job for n, job in VOLCANO_JOBS.items()
}
names = (f"converted-{number}" for number in itertools.count())


@pytest.fixture(scope="module")
def api_in_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiClient]:
    with in_a_thread(ApiServer(namespaces=[NAMESPACE])) as server:
        yield ApiClient(server.kubeconfig(tmp_path_factory.mktemp("api") / "kubeconfig"))


@pytest.fixture(scope="module")
def real_api(strict_control_plane: ControlPlane, account: Path) -> ApiClient:
    """Return an API server with our CRD."""
    strict_control_plane.namespace(NAMESPACE)
    return strict_control_plane.api


@pytest.fixture(scope="module", params=["in_process", pytest.param("real", marks=pytest.mark.contract)])
def api(request: pytest.FixtureRequest) -> ApiClient:
    found: ApiClient = request.getfixturevalue("api_in_process" if request.param == "in_process" else "real_api")
    return found


def converted(document: dict[str, Any]) -> dict[str, Any]:
    """The job as it is printed, in our namespace."""
    conversion = convert(document)
    assert conversion is not None
    ((_, manifest),) = parse(dump(conversion.manifest))
    assert manifest == conversion.manifest
    manifest["metadata"] |= {"namespace": NAMESPACE, "name": next(names)}
    found: dict[str, Any] = manifest
    return found


@pytest.mark.parametrize("document", JOBS.values(), ids=JOBS.keys())
def test_a_converted_job_is_accepted_to_the_last_field(api: ApiClient, document: dict[str, Any]):
    job = api.create(f"{jobs_path(NAMESPACE)}?{STRICT}", converted(document))
    assert Job.parse(job).problem == ""


@pytest.mark.contract
@pytest.mark.parametrize("document", JOBS.values(), ids=JOBS.keys())
def test_so_are_its_pods_and_the_operator_replaces_nothing_in_them(real_api: ApiClient, document: dict[str, Any]):
    job = Job.parse(real_api.create(f"{jobs_path(NAMESPACE)}?{STRICT}", converted(document)))
    assert overridden_fields(job) == []
    for role in job.spec.replica_specs:
        pod = build_pod(job, role, 0, 0)
        assert (
            real_api.create(f"{core_path(NAMESPACE, 'pods')}?{STRICT}", pod)["metadata"]["name"]
            == f"{job.name}-{role}-0"
        )


def test_a_field_that_nobody_knows_would_be_refused(api: ApiClient):
    job = converted(TFJOBS["workers"])
    job["spec"]["unheardOf"] = 1
    with pytest.raises(ApiError, match="unheardOf"):
        api.create(f"{jobs_path(NAMESPACE)}?{STRICT}", job)
