"""The page of /metrics."""

from dtj_trainer.ipc.messages import CheckpointRestored
from dtj_trainer.supervisor.http.metrics import Metrics
from dtj_trainer.supervisor.progress import Progress
from tests.unit.supervisor.statuses import page_of


def test_the_checkpoint_that_a_new_pod_goes_on_from_is_its_last_one():
    progress, metrics = Progress(), Metrics()
    progress.apply(CheckpointRestored(40), 1.0, 0.0)
    metrics.apply(CheckpointRestored(40))
    assert progress.status()["lastCheckpointStep"] == 40
    page = page_of(metrics)
    assert "dtj_last_checkpoint_step 40.0" in page
    assert "dtj_checkpoint_seconds_count 0.0" in page


def test_metrics_without_a_value_are_named():
    page = page_of(Metrics())
    for name in (
        "dtj_loss",
        "dtj_learning_rate",
        "dtj_last_checkpoint_step",
        "dtj_restarts_total",
        "dtj_bringup_seconds",
    ):
        assert f"# TYPE {name} " in page


def test_the_metrics_page_names_what_the_contract_names():
    metrics = Metrics()
    metrics.step_seconds.observe(0.02, 10)
    metrics.restarts["peer-lost"] += 1
    metrics.bringup["import"] = 1.5
    metrics.loss = 0.25
    page = page_of(metrics)
    for line in ('dtj_step_seconds_bucket{le="0.025"} 10.0', "dtj_step_seconds_count 10.0", "dtj_loss 0.25",
                 'dtj_restarts_total{cause="peer-lost"} 1.0', 'dtj_restarts_total{cause="stalled"} 0.0',
                 'dtj_bringup_seconds{phase="import"} 1.5',
                 "dtj_stalls_total 0.0", "dtj_steps_total 0.0", "dtj_examples_total 0.0"):  # fmt: skip
        assert line in page.splitlines()
