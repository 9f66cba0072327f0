"""When each alert fires and when it does not, by the clock of promtool; a sample a minute."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml

from e2e.cluster import debian_programs
from tests.support.monitoring import alert_groups, alerts

pytestmark = pytest.mark.contract

JOB = 'namespace="a",name="j"'
POD = f'{JOB},role="worker"'
LEADS = 'leader_election_master_status{name="dtj-operator",instance="a"}'
REQUESTS = "rest_client_requests_total"
WAITS = 'workqueue_queue_duration_seconds_bucket{name="distributedtrainingjob",le="%s"}'
STEPS = f"dtj_steps_total{{{POD}}}"
RUNNING = f'dtj_job_info{{{JOB},phase="Running"}}'
PENDING, STARTING = RUNNING.replace("Running", "Pending"), RUNNING.replace("Running", "Starting")
CASES = {
    "DtjOperatorDown": (
        ("4m", {LEADS: "1 0x60"}),
        ("7m", {LEADS: "1 0x60"}),
        ("40m", {LEADS: "0x60", LEADS.replace('"a"', '"b"'): "1x60"}),
    ),
    "DtjOperatorErrors": (
        ("14m", {'controller_runtime_reconcile_errors_total{controller="distributedtrainingjob"}': "0+1x60"}),
        ("18m", {'controller_runtime_reconcile_errors_total{controller="distributedtrainingjob"}': "0+1x60"}),
        ("40m", {'controller_runtime_reconcile_errors_total{controller="distributedtrainingjob"}': "5x60"}),
    ),
    "DtjOperatorRequestsFail": (
        ("14m", {f'{REQUESTS}{{code="200"}}': "0+8x60", f'{REQUESTS}{{code="403"}}': "0+2x60"}),
        ("18m", {f'{REQUESTS}{{code="200"}}': "0+8x60", f'{REQUESTS}{{code="403"}}': "0+2x60"}),
        # Conflicts and objects that are gone belong to normal work.
        ("40m", {f'{REQUESTS}{{code="200"}}': "0+8x60", f'{REQUESTS}{{code="409"}}': "0+20x60"}),
    ),
    "DtjOperatorSlow": (
        ("14m", {WAITS % "10": "0+5x60", WAITS % "60": "0+9x60", WAITS % "+Inf": "0+10x60"}),
        ("18m", {WAITS % "10": "0+5x60", WAITS % "60": "0+9x60", WAITS % "+Inf": "0+10x60"}),
        ("40m", {WAITS % "5": "0+9x60", WAITS % "10": "0+10x60", WAITS % "+Inf": "0+10x60"}),
    ),
    "DtjJobNotStarting": (
        ("29m", {PENDING: "1x10 _x60", STARTING: "_x10 1x60"}),
        ("31m", {PENDING: "1x10 _x60", STARTING: "_x10 1x60"}),
        ("40m", {RUNNING: "1x60"}),
    ),
    "DtjJobRestarting": (
        ("14m", {f'dtj_job_info{{{JOB},phase="Restarting"}}': "1x60"}),
        ("16m", {f'dtj_job_info{{{JOB},phase="Restarting"}}': "1x60"}),
        ("40m", {RUNNING: "1x60"}),
    ),
    "DtjManyJobsFail": (
        ("20m", {'dtj_jobs_failed_total{reason="FailedByRule"}': "0x9 2x90"}),
        ("20m", {'dtj_jobs_failed_total{reason="FailedByRule"}': "0x9 4x90"}),
        ("90m", {'dtj_jobs_failed_total{reason="FailedByRule"}': "0x9 4x90"}),
    ),
    "DtjManyRestarts": (
        ("20m", {'dtj_restarts_total{cause="NodeLost"}': "0x9 4x90"}),
        ("20m", {'dtj_restarts_total{cause="NodeLost"}': "0x9 8x90"}),
        # Restarts in place, which trainers count under the same name.
        ("20m", {f'dtj_restarts_total{{{POD},cause="killed"}}': "0x9 8x90"}),
    ),
    "DtjTrainingWithoutSteps": (
        ("29m", {STEPS: "0+9x9 90x90", RUNNING: "1x99"}),
        ("45m", {STEPS: "0+9x9 90x90", RUNNING: "1x99"}),
        ("45m", {STEPS: "0+9x9 90x90", RUNNING.replace("Running", "Suspended"): "1x99"}),
    ),
    "DtjTrainingStalls": (
        ("20m", {f"dtj_stalls_total{{{POD}}}": "0x9 1x90"}),
        ("20m", {f"dtj_stalls_total{{{POD}}}": "0x9 4x90"}),
        ("90m", {f"dtj_stalls_total{{{POD}}}": "0x9 4x90"}),
    ),
    "DtjRestartsInPlace": (
        ("20m", {f'dtj_restarts_total{{{POD},cause="killed"}}': "0x9 4x90"}),
        ("20m", {f'dtj_restarts_total{{{POD},cause="killed"}}': "0x9 8x90"}),
        ("20m", {'dtj_restarts_total{cause="Killed"}': "0x9 8x90"}),
    ),
    "DtjCheckpointsStopped": (
        ("50m", {STEPS: "0+9x99", RUNNING: "1x99", f"dtj_last_checkpoint_step{{{POD}}}": "0x9 9x90"}),
        ("80m", {STEPS: "0+9x99", RUNNING: "1x99", f"dtj_last_checkpoint_step{{{POD}}}": "0x9 9x90"}),
        ("80m", {STEPS: "0+9x99", RUNNING: "1x99"}),
    ),
    "DtjDataSlow": (
        ("29m", {f"dtj_data_wait_seconds_total{{{POD}}}": "0+40x90", f"dtj_step_seconds_sum{{{POD}}}": "0+60x90"}),
        ("35m", {f"dtj_data_wait_seconds_total{{{POD}}}": "0+40x90", f"dtj_step_seconds_sum{{{POD}}}": "0+60x90"}),
        ("60m", {f"dtj_data_wait_seconds_total{{{POD}}}": "0+20x90", f"dtj_step_seconds_sum{{{POD}}}": "0+60x90"}),
    ),
}  # fmt: skip
"""By alert: a time and samples at which it is quiet, at which it fires, and a similar case in which it does not."""


def test_every_alert_has_cases():
    assert list(CASES) == [rule["alert"] for rule in alerts()]


def test_alerts_fire_when_they_should_and_not_before(tmp_path: Path):
    def case(alert: str, alerts: int, at: str, series: dict[str, str]) -> dict[str, object]:
        expected = [{"labels": "{}", "value": alerts}] if alerts else []
        return {
            "name": alert,
            "interval": "1m",
            "input_series": [{"series": name, "values": values} for name, values in series.items()],
            "promql_expr_test": [
                {
                    "expr": f'count(ALERTS{{alertname="{alert}",alertstate="firing"}})',
                    "eval_time": at,
                    "exp_samples": expected,
                }
            ],
        }

    tests = [
        case(alert, int(number == 1), *each) for alert, cases in CASES.items() for number, each in enumerate(cases)
    ]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": alert_groups()}))
    (tmp_path / "tests.yaml").write_text(yaml.safe_dump({"rule_files": ["rules.yaml"], "tests": tests}))
    command = [str(debian_programs.ensure("prometheus", "promtool") / "promtool"), "test", "rules", "tests.yaml"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
