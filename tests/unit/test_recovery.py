"""How e2e times a recovery from what trainers said: pure tables."""

from e2e.job_monitor import Sample
from e2e.recovery import recovery


def said(at, pod="w0", step=None, *, restarts=0, uid="a", updated=None):
    return Sample(
        at=at,
        pod=pod,
        uid=uid,
        phase="train",
        step=step,
        total_steps=100,
        loss=1.0,
        steps_per_second=10.0,
        restarts=restarts,
        updated=updated or str(step),
        checkpoint_step=None,
    )


def test_a_pod_trains_again_at_the_first_new_step_of_its_new_child():
    samples = [
        said(1.0, step=70),
        said(2.1, step=70, restarts=1),
        said(2.5, step=70, restarts=1),
        said(2.8, step=51, restarts=1),
    ]
    found = recovery(samples, 2.0, ["w0"])
    assert found is not None
    assert round(found.all_train, 3) == 0.8
    assert found.lost_steps == 20


def test_what_the_old_child_said_last_is_no_new_step():
    assert recovery([said(1.0, step=70), said(2.1, step=70, restarts=1)], 2.0, ["w0"]) is None


def test_the_same_step_made_again_counts_as_new():
    samples = [said(1.0, step=51, updated="t1"), said(2.1, step=51, updated="t1", restarts=1)]
    found = recovery([*samples, said(2.6, step=51, updated="t2", restarts=1)], 2.0, ["w0"])
    assert found is not None
    assert found.lost_steps == 1


def test_steps_of_a_child_that_still_lives_are_not_recovery():
    samples = [said(1.0, step=70), said(2.1, step=72), said(2.2, step=74)]
    assert recovery(samples, 2.0, ["w0"]) is None


def test_a_replaced_pod_trains_again_at_its_first_step():
    samples = [said(1.0, step=70), said(4.0, uid="b"), said(5.0, step=51, uid="b")]
    found = recovery(samples, 2.0, ["w0"])
    assert found is not None
    assert found.seconds == {"w0": 3.0}


def test_all_train_again_when_the_slowest_does():
    samples = [
        said(1.0, "w0", 70),
        said(1.0, "w1", 70),
        said(2.1, "w0", 71, restarts=1),
        said(2.1, "w1", 70, restarts=1),
        said(2.5, "w1", 51, restarts=1),
        said(2.9, "w0", 51, restarts=1),
    ]
    found = recovery(samples, 2.0, ["w0", "w1"])
    assert found is not None
    assert round(found.seconds["w1"], 3) == 0.5
    assert round(found.all_train, 3) == 0.9


def test_a_pod_that_never_trained_cannot_recover():
    assert recovery([said(3.0, step=1)], 2.0, ["w0"]) is None


def test_the_old_children_leave_until_the_last_pod_that_stays_has_a_new_one():
    samples = [
        said(1.0, "w0", 70),
        said(1.0, "w1", 70),
        said(2.5, "w0", 72, restarts=1),
        said(4.0, "w1", uid="b"),
        said(5.0, "w0", 73, restarts=1),
        said(5.0, "w1", 73, uid="b"),
    ]
    found = recovery(samples, 2.0, ["w0", "w1"])
    assert found is not None
    assert (found.all_train, found.leaving) == (3.0, 0.5)
