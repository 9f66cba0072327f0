"""Every workload ends as if undisturbed, whatever happens at any of the operator's writes."""

from __future__ import annotations

import pytest

from tests.faults.fault_cluster import IN_PROCESS, Backend
from tests.faults.fault_plans import EVERY_WRITE, OTHERS, SAMPLE_ON_REAL, STRIDES, Disturbance, run_all
from tests.faults.workloads import WORKLOADS, Workload

SAMPLE = ("created, four workers", "created, four roles")
each_workload = pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.name)
each_with_a_sample = pytest.mark.parametrize(
    "workload",
    [
        pytest.param(workload, id=workload.name, marks=[pytest.mark.sample] if workload.name in SAMPLE else [])
        for workload in WORKLOADS
    ],
)


@pytest.mark.faults
@each_with_a_sample
async def test_a_crash_or_timeout_at_any_write_changes_no_end_state(workload: Workload):
    results = await run_all(IN_PROCESS, workload, {how: STRIDES[how] for how in EVERY_WRITE})
    assert [str(result) for result in results if result.violations] == []


@pytest.mark.faults
@each_workload
@pytest.mark.parametrize("disturbance", OTHERS, ids=str)
async def test_old_views_missed_events_and_refusals_change_no_end_state(workload: Workload, disturbance: Disturbance):
    results = await run_all(IN_PROCESS, workload, {disturbance: STRIDES[disturbance]})
    assert [str(result) for result in results if result.violations] == []


@pytest.mark.contract
@pytest.mark.timeout(600)
@each_workload
async def test_on_a_real_api_server_nothing_of_all_this_changes_an_end_state(real: Backend, workload: Workload):
    results = await run_all(real, workload, SAMPLE_ON_REAL)
    assert [str(result) for result in results if result.violations] == []
