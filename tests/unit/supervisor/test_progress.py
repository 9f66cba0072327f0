"""Readiness, stalls and hanging saves, from what a training process reports."""

import math

from dtj_trainer.ipc.messages import (
    BatchesValidated,
    CallbackEnded,
    CallbackStarted,
    CheckpointSaved,
    CheckpointStarted,
    PhaseChanged,
    StepsDone,
    TrainingStarted,
)
from dtj_trainer.supervisor.progress import Progress


def stepping(seconds: float = 1.0, until: int = 10) -> Progress:
    progress = Progress()
    progress.process_started(0.0)
    for step in range(1, until + 1):
        progress.apply(StepsDone(step, 1, seconds), float(step), 0.0)
    return progress


def test_ready_means_steps_within_three_medians_and_five_seconds():
    progress = stepping(seconds=1.0)
    assert progress.ready_until >= 10.0 + 8.0
    assert progress.ready_until < 10.0 + 8.1


def test_nothing_is_ready_before_the_first_step_or_after_the_loss_of_the_process():
    progress = Progress()
    progress.process_started(0.0)
    assert progress.ready_until < 0.1
    progress = stepping()
    progress.process_lost()
    assert progress.ready_until < 10.0


def test_a_save_counts_as_life():
    progress = stepping()
    progress.apply(PhaseChanged("save"), 10.0, 0.0)
    assert progress.ready_until >= 500.0
    assert not progress.stalled(500.0, None, 900.0)


def test_an_evaluator_is_ready_while_it_waits_and_while_it_evaluates_its_first_checkpoint():
    progress = Progress()
    progress.process_started(0.0)
    for phase in ("wait", "validate"):
        progress.apply(PhaseChanged(phase), 1.0, 0.0)
        assert progress.ready_until >= 500.0


def test_a_save_that_does_not_end_in_its_time_hangs_also_beside_steps():
    progress = stepping()
    progress.apply(CheckpointStarted(10), 10.0, 0.0)
    progress.apply(StepsDone(11, 1, 1.0), 610.0, 0.0)
    assert not progress.save_hangs(610.0, 600.0)
    assert progress.save_hangs(610.1, 600.0)
    progress.apply(CheckpointSaved(10, 1.0), 611.0, 0.0)
    assert not progress.save_hangs(2000.0, 600.0)
    progress.apply(CheckpointStarted(12), 2000.0, 0.0)
    progress.process_lost()
    assert not progress.save_hangs(3000.0, 600.0)


def test_what_comes_after_the_last_step_has_the_time_of_a_save_and_is_no_stall_before():
    progress = stepping(seconds=1.0)
    progress.apply(PhaseChanged("finish"), 100.0, 0.0)
    assert progress.ready_until >= 999.0
    assert not progress.stalled(999.0, 2.0, 900.0)
    assert not progress.finish_hangs(1000.0, 900.0)
    assert progress.finish_hangs(1000.1, 900.0)
    progress.apply(PhaseChanged("done"), 1001.0, 0.0)
    assert not progress.finish_hangs(9999.0, 900.0)


def test_a_stall_is_ten_medians_and_thirty_seconds_or_what_was_said():
    progress = stepping(seconds=1.0)
    assert not progress.stalled(50.0, None, 900.0)
    assert progress.stalled(50.1, None, 900.0)
    assert progress.stalled(12.1, 2.0, 900.0)


def test_metrics_of_an_epoch_that_was_owed_are_no_step_and_the_first_one_still_has_its_time():
    progress = Progress()
    progress.process_started(0.0)
    progress.apply(PhaseChanged("build", 1.0), 1.0, 0.0)
    progress.apply(StepsDone(10, 0, 0.0, metrics={"val_loss": 1.0}), 2.0, 0.0)
    assert progress.status()["metrics"] == {"val_loss": 1.0}
    assert not progress.stalled(900.0, None, 900.0)


def test_a_first_step_that_does_not_come_is_a_stall_once_all_was_ready_for_it():
    progress = Progress()
    progress.process_started(0.0)
    assert not progress.stalled(2000.0, 2.0, 900.0)  # perhaps a program that reports no steps
    progress.apply(PhaseChanged("build", 1.0), 100.0, 0.0)
    assert not progress.stalled(1000.0, 2.0, 900.0)
    assert progress.stalled(1000.1, 2.0, 900.0)
    progress.apply(PhaseChanged("wait"), 200.0, 0.0)
    assert not progress.stalled(2000.0, 2.0, 900.0)


def test_a_standby_that_took_over_and_makes_no_step_is_a_stall():
    progress = stepping(seconds=1.0)
    progress.process_lost()
    progress.process_started(100.0)
    progress.standby_took_over()
    assert not progress.stalled(1000.0, 2.0, 900.0)
    assert progress.stalled(1000.1, 2.0, 900.0)
    assert not progress.stalled(1000.1, 3600.0, 900.0)


def test_the_next_training_of_a_program_is_named_and_counts_its_own_steps():
    progress = Progress()
    progress.apply(TrainingStarted(1, None), 0.0, 0.0)
    progress.apply(StepsDone(step=40, steps=40, seconds=4.0, total_steps=40), 1.0, 0.0)
    assert progress.status()["training"] == {"number": 1, "name": None}
    progress.apply(TrainingStarted(2, "tune"), 2.0, 0.0)
    status = progress.status()
    assert (status["training"], status["step"]) == ({"number": 2, "name": "tune"}, None)


def test_between_two_trainings_a_pod_is_ready_and_the_next_first_step_has_the_time_of_a_first_step():
    progress = stepping(until=1)
    progress.apply(PhaseChanged("done"), 1.0, 0.0)
    assert progress.ready_until == math.inf
    assert not progress.stalled(1e6, None, 900.0)
    progress.apply(PhaseChanged("build", 1.0), 1e6, 0.0)
    assert progress.ready_until == math.inf
    assert not progress.stalled(1e6 + 899, None, 900.0)
    assert progress.stalled(1e6 + 901, None, 900.0)
    progress.apply(PhaseChanged("train"), 1e6 + 2, 0.0)
    assert progress.ready_until < math.inf


def test_a_validation_stalls_as_training_does_from_its_last_batch_on():
    progress = stepping(seconds=1.0)
    progress.apply(PhaseChanged("validate"), 10.0, 0.0)
    assert not progress.validation_stalled(900.0, None, 900.0)  # the first batch compiles
    progress.apply(BatchesValidated(), 100.0, 0.0)
    assert not progress.validation_stalled(140.0, None, 900.0)
    assert progress.validation_stalled(140.1, None, 900.0)
    assert progress.validation_stalled(102.1, 2.0, 900.0)
    assert not progress.stalled(200.0, 2.0, 900.0)
    progress.apply(PhaseChanged("wait"), 200.0, 0.0)
    assert not progress.validation_stalled(2000.0, 2.0, 900.0)


def test_a_call_of_callbacks_has_the_time_of_a_save_from_its_begin_and_is_no_stall_before():
    progress = stepping(seconds=1.0)
    for phase in ("train", "validate"):
        progress.apply(PhaseChanged(phase), 50.0, 0.0)
        progress.apply(BatchesValidated(), 50.0, 0.0)
        progress.apply(CallbackStarted("on_epoch_end"), 100.0, 0.0)
        assert not progress.stalled(1000.0, 2.0, 0.0)
        assert not progress.validation_stalled(1000.0, 2.0, 0.0)
        assert not progress.callback_hangs(1000.0, 900.0)
        assert progress.callback_hangs(1000.1, 900.0)
        progress.apply(CallbackEnded(), 1001.0, 0.0)
        assert not progress.callback_hangs(9999.0, 900.0)
        assert not progress.stalled(1003.0, 2.0, 0.0)
