"""The pictures of the documentation, drawn from what real commands print.

`python -m tools.pictures` (a part of `make generate`) draws what kubectl shows of jobs on a real API server, for
docs/reference/kubectl.md: the operator handles the jobs; their pods run on kwok's fake nodes, and end as this program
sets their status. `python -m tools.pictures demo` runs `make demo` and draws its output for README.md.
`python -m tools.pictures dashboard` draws the Grafana dashboard for docs/howto/alerts.md, with the data of its test.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from itertools import groupby
from pathlib import Path

from e2e.cluster.control_plane import ControlPlane, start_control_plane
from tests.contract.monitored_jobs import WINDOW, monitored
from tests.contract.operator_under_test import Jobs, operator
from tests.support import monitoring
from tests.support.chart import install
from tools import dashboard
from tools.terminal import draw

DOCS = Path(__file__).resolve().parent.parent / "docs"
PICTURES = DOCS / "reference" / "pictures"
DEMO = DOCS / "pictures" / "demo.svg"
DASHBOARD = DOCS / "pictures" / "dashboard.svg"
KILLED, BACK = "kill -9", "train again"
"""Words of the demo's lines about the killed worker."""
PROGRESS = re.compile(r" *\w+ +\d+/\d+ ")
"""Running  480/1200 …, every few seconds."""
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
    parser = argparse.ArgumentParser(prog="python -m tools.pictures", description="Draw the pictures of the docs.")
    parser.add_argument("what", nargs="?", choices=sorted(DRAWN), default="kubectl")
    return DRAWN[parser.parse_args().what]()


def draw_demo() -> int:
    """Run the demo and draw the lines about its job."""
    ran = subprocess.run([sys.executable, "-m", "e2e.demo"], stdout=subprocess.PIPE, text=True, check=False)
    if ran.returncode == 0:
        draw(DEMO, "make demo", about_the_job(ran.stdout), styles={KILLED: "bold red", BACK: "bold green"})
        print(f"Drawn in {DEMO}.")
    return ran.returncode


def about_the_job(output: str) -> str:
    """Return the demo's output up to the job's result; of many lines of progress the first two and the last two."""
    lines = output.splitlines()
    lines = lines[: next(number for number, line in enumerate(lines, 1) if "Succeeded:" in line)]
    shown: list[str] = []
    for is_progress, group in groupby(lines, key=lambda line: PROGRESS.match(line) is not None):
        stretch = list(group)
        shortened = [*stretch[:2], "  …", *stretch[-2:]]
        shown += shortened if is_progress and len(shortened) < len(stretch) else stretch
    return "\n".join(shown)


def draw_kubectl() -> int:
    with start_control_plane(fake_nodes=2) as server, operator(install(server)):
        create_jobs(Jobs(server, "default"))
        draw_all(server)
    print(f"Drawn in {PICTURES}.")
    return 0


def draw_dashboard() -> int:
    """Let the jobs of the monitoring test run, and draw what Prometheus has recorded of them."""
    with (
        tempfile.TemporaryDirectory() as folder,
        start_control_plane(fake_nodes=2) as server,
        monitored(server, install(server), Path(folder)) as scene,
    ):
        content = json.loads(monitoring.DASHBOARD.read_text())
        dashboard.draw(DASHBOARD, content, lambda query: scene.prometheus.history(monitoring.quick(query, WINDOW)))
    print(f"Drawn in {DASHBOARD}.")
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


DRAWN = {"kubectl": draw_kubectl, "demo": draw_demo, "dashboard": draw_dashboard}


if __name__ == "__main__":
    sys.exit(main())
