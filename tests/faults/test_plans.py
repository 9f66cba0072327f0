"""Every story ends as if undisturbed, whatever happens at any of the operator's writes."""

from __future__ import annotations

import pytest

from tests.faults.plans import EVERY_WRITE, OTHERS, run_all
from tests.faults.workloads import WORKLOADS

pytestmark = pytest.mark.faults


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.name)
async def test_a_crash_or_timeout_at_any_write_changes_no_end_state(workload):
    results = await run_all(workload, EVERY_WRITE)
    assert [str(result) for result in results if result.complaints] == []


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.name)
@pytest.mark.parametrize("disturbance", OTHERS, ids=str)
async def test_old_views_missed_events_and_refusals_change_no_end_state(workload, disturbance):
    results = await run_all(workload, [disturbance])
    assert [str(result) for result in results if result.complaints] == []
