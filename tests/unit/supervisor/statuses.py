"""The status of a supervisor that knows nothing yet, and its page of /metrics."""

from __future__ import annotations

import math
import os

from dtj_trainer.cluster.tf_config import Task
from dtj_trainer.supervisor.http.metrics import Metrics, page
from dtj_trainer.supervisor.http.status import SupervisorStatus
from dtj_trainer.supervisor.membership import Member


def a_status() -> SupervisorStatus:
    return SupervisorStatus(
        published_at=0.0,
        phase="waiting",
        progress={},
        restarts=0,
        recoveries={"count": 0, "last": None},
        ready_until=-math.inf,
        probe=None,
        member=Member("", 0, Task("worker", 0), "a", ""),
        known={},
        peers_ready=0,
        standby_ready=False,
        training_pid=os.getpid(),
    )


def page_of(metrics: Metrics) -> str:
    return page(metrics, a_status()).decode()
