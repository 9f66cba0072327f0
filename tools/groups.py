"""A pytest plugin (`-p tools.groups`): one xdist process runs all tests that share an expensive fixture.

All other tests go to any free process. xdist's own marker for this (`--dist=loadgroup`) has no effect under pytest 9.2.
`Scheduling` overrides two methods of `LoadScopeScheduling` that xdist does not document, seen in pytest-xdist 3.8; with
another minor version the run stops with a sentence.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import Final

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

SEEN: Final = "3.8."
"""The minor version of pytest-xdist that this plugin was written for."""
ASIDE: Final = "what waits for a supervisor"
"""A process that runs this group gets no other tests: it is a third process, because the group mostly waits."""
GROUPS: Final = {
    "e2e/scenarios/test_small_jobs.py": "what mostly waits",
    "e2e/scenarios/test_steady_state.py": "what mostly waits",
    "e2e/scenarios/test_split_models.py": "what trains for long",
    "e2e/scenarios/": "what trains",
    "e2e/test_cluster.py": "clusters of their own",
    "tests/contract/test_monitoring.py": "what waits for alerts",
    "tests/contract/": "API servers with all that belongs to them",
    "tests/trainer/data/test_stores.py": "HDFS and buckets",
    "tests/trainer/examples/test_ctr.py": "HDFS and buckets",
    "tests/trainer/training/test_equality.py": "what one device trains",
    "tests/trainer/training/test_resume.py::test_asked_to_leave_while_it_validates": "what one process validates",
    "tests/trainer/checkpoint/test_remote.py": "HDFS and buckets",
    "tests/trainer/strategy/test_one_process.py": "what one device learns",
    "tests/trainer/supervisor/test_cluster.py": ASIDE,
    "tests/trainer/supervisor/test_one_process.py": ASIDE,
    "tests/trainer/supervisor/test_training.py": ASIDE,
}
"""Groups by the beginning of a test's id; the first that matches counts."""


class Scheduling(LoadScopeScheduling):  # type: ignore[misc]  # untyped
    """A scheduler with one scope for each group, and one for each other test."""

    def _split_scope(self, nodeid: str) -> str:
        return next((group for place, group in GROUPS.items() if nodeid.startswith(place)), nodeid)

    def _reschedule(self, node: WorkerController) -> None:
        others = any(not other.shutting_down for other in self.nodes if other is not node)
        if ASIDE in self.assigned_work[node] and others and not node.shutting_down:
            node.shutdown()  # once it has run what it has
            return
        super()._reschedule(node)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling:
    if not (found := version("pytest-xdist")).startswith(SEEN):
        raise pytest.UsageError(f"tools/groups.py knows pytest-xdist {SEEN}x and this is {found}: check its overrides.")
    return Scheduling(config, log)
