"""The agreement of supervisors on the next cluster: docs/decisions/010-rendezvous.md."""

import random
from dataclasses import replace

from dtj_trainer.cluster.tf_config import Task
from dtj_trainer.supervisor.rendezvous import Identity, Refusal, Rendezvous, Stage


def supervisor(index: int, of: int = 2, incarnation: str = "a", attempt: int = 0) -> Rendezvous:
    me = Identity("u", attempt, "worker", index, f"{incarnation}{index}", "2.21.0")
    return Rendezvous(me, [Task("worker", i) for i in range(of) if i != index])


def talk(*all_of_them: Rendezvous) -> None:
    for speaker in all_of_them:
        for listener in all_of_them:
            if speaker is not listener:
                listener.hear(speaker.me)
                speaker.hear(listener.me)


def park(*all_of_them: Rendezvous) -> None:
    for one in all_of_them:
        one.follow()
        one.stand(Stage.PARKED)


def formed(of: int = 2) -> list[Rendezvous]:
    workers = [supervisor(index, of) for index in range(of)]
    park(*workers)
    talk(*workers)
    for worker in workers:
        worker.stand(Stage.RUNNING)
    talk(*workers)
    return workers


def test_nobody_runs_before_all_are_parked():
    first, second = supervisor(0), supervisor(1)
    park(first)
    talk(first, second)
    assert not first.complete
    assert first.missing() == [Task("worker", 1)]
    park(second)
    talk(first, second)
    assert first.complete
    assert second.complete
    assert first.me.generation == second.me.generation == 1


def test_a_running_peer_that_counted_me_does_not_make_me_ask_for_the_next_generation():
    first, second = supervisor(0), supervisor(1)
    park(first, second)
    talk(first, second)
    first.stand(Stage.RUNNING)
    talk(first, second)
    assert not second.follow()
    assert second.complete


def test_a_lost_process_makes_the_others_leave_and_all_form_the_next_generation():
    first, second, third = workers = formed(3)
    second.process_lost()
    talk(*workers)
    assert first.overtaken
    assert third.overtaken
    for survivor in (first, third):
        survivor.process_lost()
    park(*workers)
    talk(*workers)
    assert [worker.me.generation for worker in workers] == [2, 2, 2]
    assert all(worker.complete for worker in workers)


def test_simultaneous_losses_ask_for_the_same_generation():
    workers = formed(2)
    for worker in workers:
        worker.process_lost()
    park(*workers)
    talk(*workers)
    assert [worker.me.generation for worker in workers] == [2, 2]


def test_a_new_pod_in_a_running_cluster_asks_for_the_next_generation():
    first, _ = formed(2)
    anew = supervisor(1, incarnation="b", attempt=1)
    talk(first, anew)
    park(anew)
    assert anew.me.generation == 2
    talk(first, anew)
    assert first.overtaken


def test_a_new_pod_that_parked_before_it_heard_of_the_running_cluster_corrects_itself():
    first, _ = formed(2)
    anew = supervisor(1, incarnation="b")
    park(anew)
    talk(first, anew)
    assert not anew.complete
    assert anew.follow()
    assert anew.me.generation == 2


def test_another_job_and_an_older_attempt_are_refused():
    first = supervisor(0)
    assert first.hear(replace(supervisor(1).me, uid="other")) is Refusal.OTHER_JOB
    assert first.hear(supervisor(1, attempt=2).me) is None
    assert first.hear(supervisor(1, attempt=1).me) is Refusal.OLDER_ATTEMPT
    assert first.hear(supervisor(1, attempt=2).me) is None


def test_words_that_were_overtaken_on_their_way_are_ignored():
    first, second = formed(2)
    old = second.me
    second.process_lost()
    first.hear(second.me)
    first.hear(old)
    assert first.known[Task("worker", 1)].generation == 2


def test_another_tensorflow_is_noticed():
    first = supervisor(0)
    first.hear(replace(supervisor(1).me, tensorflow="2.20.0"))
    odd = first.odd_version()
    assert odd is not None
    assert odd.tensorflow == "2.20.0"


def turn(workers: list[Rendezvous]) -> None:
    """What every supervisor does when it has heard something."""
    for worker in workers:
        if worker.overtaken:
            worker.process_lost()
        if worker.me.stage is not Stage.RUNNING:
            worker.follow()
            worker.stand(Stage.PARKED)
            if worker.complete:
                worker.stand(Stage.RUNNING)


def disturb(workers: list[Rendezvous], chance: random.Random, name: str) -> None:
    index = chance.randrange(len(workers))
    if chance.random() < 0.3:
        workers[index] = supervisor(index, len(workers), name)
    elif workers[index].me.stage is Stage.RUNNING:
        workers[index].process_lost()


def test_whatever_is_lost_and_replaced_in_whatever_order_all_run_the_same_cluster_in_the_end():
    for seed in range(200):
        chance = random.Random(seed)
        workers = formed(chance.randint(2, 4))
        for number in range(25):
            if chance.random() < 0.3:
                disturb(workers, chance, f"r{number}-")
            turn(chance.sample(workers, len(workers)))
            speaker, listener = chance.sample(workers, 2)
            listener.hear(speaker.me)
            speaker.hear(listener.me)
        for _ in range(6):
            talk(*workers)
            turn(workers)
        assert {worker.me.stage for worker in workers} == {Stage.RUNNING}, seed
        assert len({(worker.me.generation, worker.me.formation) for worker in workers}) == 1, seed
