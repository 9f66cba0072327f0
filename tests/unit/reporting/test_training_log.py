"""What a training reports, and to whom."""

from types import SimpleNamespace
from typing import Any

from dtj_trainer.ipc.messages import StepsDone
from dtj_trainer.reporting.training_log import StepReport, TrainingLog

REPORT = StepReport(
    step=6,
    epoch=1,
    steps=2,
    seconds=0.5,
    examples=64,
    data_wait_seconds=0.1,
    means={"loss": 0.25, "other": 1.0},
    learning_rate=0.01,
    compiled=False,
)


def log_of(*, is_chief: bool = False) -> tuple[TrainingLog, list[StepsDone]]:
    """Return a log, and what it sends to the supervisor."""
    sent: list[StepsDone] = []
    context: Any = SimpleNamespace(is_chief=is_chief, reporter=SimpleNamespace(steps_done=sent.append))
    return TrainingLog(context, "", total_steps=8, epochs=2), sent


def test_steps_are_reported_with_the_metrics_of_the_last_epoch():
    log, sent = log_of()
    log.steps_done(REPORT, {"accuracy": 0.5})
    assert sent == [StepsDone(6, 2, 0.5, 64, 0.1, 8, 1, 0.25, 0.01, {"accuracy": 0.5})]


def test_new_metrics_are_reported_without_steps_and_keep_the_loss():
    log, sent = log_of()
    log.steps_done(REPORT, {})
    log.metrics(6, 1, {"accuracy": 0.75}, 0.02)
    assert sent[1:] == [StepsDone(6, 0, 0.0, 0, 0.0, 8, 1, 0.25, 0.02, {"accuracy": 0.75})]


def test_the_chief_alone_prints_the_end_of_an_epoch(capsys):
    for is_chief in (False, True):
        log, sent = log_of(is_chief=is_chief)
        log.epoch_ended(4, 0, {"loss": 0.5}, None)
        assert [done.metrics for done in sent] == [{"loss": 0.5}]
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("dtj: step 4/8  epoch 1/2  loss 0.5")
