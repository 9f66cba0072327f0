"""`make pictures`: what kubectl shows of jobs on a real API server, drawn for docs/reference/kubectl.md.

The operator handles the jobs; their pods run on kwok's fake nodes, and end as this program sets their status.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from e2e.cluster.control_plane import ControlPlane, start_control_plane
from tests.contract.operator_under_test import Jobs, operator
from tests.support.chart import install
from tools.terminal import draw

PICTURES = Path(__file__).resolve().parent.parent / "docs" / "reference" / "pictures"
DONE = {"class": "done", "exitCode": 0, "step": 1200, "checkpointStep": 1200, "metrics": {"val_accuracy": 0.992}}
SHOWN = (
    ("get", "get dtj", 1),
    ("wide", "get dtj -o wide", 1),
    ("describe", "describe dtj digits", 1),
    ("explain", "explain dtj.spec --recursive", 3),
    ("explain-one", "explain dtj.spec.failurePolicy", 1),
)
"""Name, command, and the number of columns of its output."""


def main() -> int:
    with start_control_plane(fake_nodes=2) as server, operator(install(server)):
        create_jobs(Jobs(server, "default"))
        draw_all(server)
    print(f"Drawn in {PICTURES}.")
    return 0


def create_jobs(jobs: Jobs) -> None:
    """Create a job that runs and has lost a worker, one that succeeded, one that failed, and one that is suspended."""
    once = {"maxRestarts": 0}
    jobs.create("ctr", suspend=True)
    jobs.create("digits", checkpoint={"directory": "/checkpoints"})
    jobs.create("resnet", worker=1, failurePolicy=once)
    jobs.create("tutorial", worker=1)
    jobs.until(
        lambda: all(jobs.holds(name, "Running") for name in ("digits", "resnet", "tutorial")), "three jobs that run"
    )
    jobs.end_pod("resnet-worker-0", 1, "ValueError: labels.csv has no column `label`")
    jobs.end_pod("tutorial-worker-0", 0, json.dumps(DONE))
    jobs.end_pod("digits-worker-1", 137)
    jobs.until(
        lambda: (
            jobs.holds("resnet", "Failed")
            and jobs.holds("tutorial", "Succeeded")
            and jobs.status("digits")["restarts"]["total"] == 1
            and jobs.holds("digits", "Running")
            and any(event["reason"] == "Recovered" for event in jobs.events("digits"))
        ),
        "four jobs in four states",
    )


def draw_all(server: ControlPlane) -> None:
    for name, command, columns in SHOWN:
        draw(PICTURES / f"{name}.svg", f"kubectl {command}", server.kubectl(*command.split()), columns=columns)


if __name__ == "__main__":
    sys.exit(main())
