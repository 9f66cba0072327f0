"""The previous version of the operator and this one run in turn over a living job, on a real API server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from e2e.previous_version import CHART, WHEEL
from tests.contract.operator_under_test import Jobs, operator
from tests.support.chart import RIGHTS, apply

if TYPE_CHECKING:
    from pathlib import Path

    from e2e.cluster.control_plane import ControlPlane

pytestmark = [pytest.mark.contract, pytest.mark.timeout(600)]

NAME = "train"


def restart(jobs: Jobs, times: int) -> None:
    """Let a worker fail, and see the job recover from it, so that it has recovered so many times."""
    jobs.until(lambda: len(jobs.pods()) == 2, "two pods")
    before = jobs.pods()
    for pod in before:
        jobs.start_pod(pod)
    jobs.until(lambda: jobs.holds(NAME, "Running"), "a running job")
    jobs.end_pod("train-worker-1", 1)

    def replaced() -> bool:
        pod = jobs.pods().get("train-worker-1", before["train-worker-1"])
        return pod["metadata"]["uid"] != before["train-worker-1"]["metadata"]["uid"]

    jobs.until(replaced, "a new pod")
    jobs.start_pod("train-worker-1")
    jobs.until(lambda: jobs.holds(NAME, "Running"), "a recovered job")
    restarts = jobs.status(NAME)["restarts"]
    assert (restarts["total"], restarts["charged"], restarts["byCause"]) == (times, times, {"UserError": times})


def test_a_job_goes_on_when_versions_of_the_operator_run_in_turn_and_after_a_rollback_of_the_chart(
    strict_control_plane: ControlPlane, account: Path, tmp_path: Path
):
    jobs = Jobs(strict_control_plane, "in-turn")
    backoff = {"initialSeconds": 0, "maxSeconds": 1}
    jobs.create(NAME, scheduler="nobody", failurePolicy={"maxRestarts": 9, "backoff": backoff})
    with operator(account):
        restart(jobs, 1)
        # What a later version has written is stored by the API server, and survives this one's writes.
        later = {"later": {"of": "status"}, "restarts": {"later": 1, "byCause": {"UserError": 1}}}
        jobs.patch_status(NAME, {"phase": "Dreaming", **later})
        restart(jobs, 2)
        status = jobs.status(NAME)
        assert (status["later"], status["restarts"]["later"], status["phase"]) == ({"of": "status"}, 1, "Running")
    survivor = jobs.pods()["train-worker-0"]["metadata"]["uid"]
    try:
        apply(strict_control_plane, CHART, RIGHTS)  # the CRD of this version stays
        with operator(account, program=WHEEL, home=tmp_path):
            restart(jobs, 3)
        apply(strict_control_plane)
        with operator(account):
            restart(jobs, 4)
        apply(strict_control_plane, CHART)
        with operator(account, program=WHEEL, home=tmp_path):
            restart(jobs, 5)
    finally:
        apply(strict_control_plane)
    with operator(account):
        restart(jobs, 6)
        jobs.end_pod("train-worker-0", 0)
        jobs.until(lambda: jobs.holds(NAME, "Succeeded"), "a succeeded job")
    assert jobs.pods()["train-worker-0"]["metadata"]["uid"] == survivor
    assert jobs.status(NAME)["attempt"] == 6
