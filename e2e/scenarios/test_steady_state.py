"""The operator writes nothing when nothing changes."""

import time

import pytest

from e2e.scenarios.fixtures import JobNamespace, Record, lowest_step, wait_for_step

pytestmark = pytest.mark.e2e

QUIET_SECONDS = 60
PROGRESS_SECONDS = 30
"""The least time between two writes of one job's progress (status.progress)."""
AGENT = "dtj-operator/"
STEPS = """
import itertools, time
import dtj
with dtj.session() as job:
    for step in itertools.count(1):
        job.report(step=step, loss=1 / step)
        time.sleep(0.1)
"""
MOVE = f"""
import os, pathlib
program = pathlib.Path("/tmp/steps.py")
program.write_text({STEPS!r})
os.execvp("dtj-run", ["dtj-run", str(program)])
"""


def test_steady_state_writes_nothing_but_the_lease(job_namespace: JobNamespace, record_property: Record) -> None:
    """Run one job whose pods only wait and one that trains: only the progress of the second one is written."""
    audit = job_namespace.installation.cluster.audit
    if audit is None:
        pytest.skip("this provider does not show the API server's audit log")
    still = job_namespace.idle(name="still")
    moving = job_namespace.small("moving", MOVE)
    with job_namespace.monitor(moving) as monitor:
        wait_for_step(monitor, 1, step=20)
        for job in (moving, still):
            job.wait("Running", lambda status: status.get("phase") == "Running", 30)
        time.sleep(5)
        mark, step = audit.mark(), lowest_step(monitor, 1)
        time.sleep(QUIET_SECONDS)
        writes = [request for request in audit.since(mark, user_agent=AGENT) if request.writes]
        assert lowest_step(monitor, 1) > step
    moving.delete()
    still.delete()

    leases = [write for write in writes if write.resource == "leases"]
    ours = [f"{write.verb} {write.resource}/{write.subresource} {write.name}" for write in writes
            if write.namespace == job_namespace.name]  # fmt: skip
    record_property("lease_writes", len(leases))
    record_property("progress_writes", len(ours))
    assert set(ours) <= {"patch distributedtrainingjobs/status moving"}
    assert len(ours) <= QUIET_SECONDS / PROGRESS_SECONDS
    assert leases, "the operator renews its Lease, and its requests are found under its user agent"
