"""Which process of a pod is which, as e2e sees it from outside."""

from e2e.containers import Process, training_process

PAUSE = Process(32001, 1, 1, "/pause")
SUPERVISOR = Process(32010, 1, 1, "dtj-run digits.py")
ZYGOTE = Process(32020, 32010, 7, "python -m dtj_trainer.preload.zygote 8")
TRAINS = Process(32760, 32020, 9, "python -m dtj_trainer.preload.zygote 8")


def test_a_standby_is_not_taken_for_the_process_that_trains_where_the_hosts_pids_wrapped_around():
    standby = Process(310, 32020, 12, "python -m dtj_trainer.preload.zygote 8")
    assert training_process((standby, PAUSE, SUPERVISOR, ZYGOTE, TRAINS)) == TRAINS


def test_without_a_zygote_the_supervisor_starts_what_trains():
    started = Process(400, 32010, 8, "python -m dtj_trainer.process.main")
    assert training_process((started, PAUSE, SUPERVISOR)) == started
    assert training_process((PAUSE, SUPERVISOR, ZYGOTE)) is None
