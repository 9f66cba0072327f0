"""The agreement of supervisors on the next cluster: docs/decisions/010-membership.md."""

import random
from dataclasses import replace

from dtj_trainer.cluster.tf_config import Task
from dtj_trainer.supervisor.membership import Member, Membership, MemberState, Refusal


def supervisor(index: int, of: int = 2, incarnation: str = "a", attempt: int = 0) -> Membership:
    me = Member("u", attempt, Task("worker", index), f"{incarnation}{index}", "2.21.0")
    return Membership(me, [Task("worker", i) for i in range(of) if i != index])


def talk(*all_of_them: Membership) -> None:
    for speaker in all_of_them:
        for listener in all_of_them:
            if speaker is not listener:
                listener.receive(speaker.me)
                speaker.receive(listener.me)


def park(*all_of_them: Membership) -> None:
    for one in all_of_them:
        one.adopt_generation()
        one.set_ready(standby=False)


def formed(of: int = 2) -> list[Membership]:
    workers = [supervisor(index, of) for index in range(of)]
    park(*workers)
    talk(*workers)
    for worker in workers:
        worker.set_state(MemberState.RUNNING)
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
    first.set_state(MemberState.RUNNING)
    talk(first, second)
    assert not second.adopt_generation()
    assert second.complete


def test_a_lost_process_makes_the_others_leave_and_all_form_the_next_generation():
    first, second, third = workers = formed(3)
    second.process_lost()
    talk(*workers)
    assert first.superseded
    assert third.superseded
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
    new = supervisor(1, incarnation="b", attempt=1)
    talk(first, new)
    park(new)
    assert new.me.generation == 2
    talk(first, new)
    assert first.superseded


def test_a_new_pod_that_parked_before_it_heard_of_the_running_cluster_corrects_itself():
    first, _ = formed(2)
    new = supervisor(1, incarnation="b")
    park(new)
    talk(first, new)
    assert not new.complete
    assert new.adopt_generation()
    assert new.me.generation == 2


def test_another_job_and_an_older_attempt_are_refused():
    first = supervisor(0)
    assert first.receive(replace(supervisor(1).me, job="other")) is Refusal.OTHER_JOB
    assert first.receive(supervisor(1, attempt=2).me) is None
    assert first.receive(supervisor(1, attempt=1).me) is Refusal.OLDER_ATTEMPT
    assert first.receive(supervisor(1, attempt=2).me) is None


def test_words_that_were_overtaken_on_their_way_are_ignored():
    first, second = formed(2)
    old = second.me
    second.process_lost()
    first.receive(second.me)
    first.receive(old)
    assert first.known[Task("worker", 1)].generation == 2


def test_an_answer_given_before_the_peer_ran_does_not_hide_that_it_runs():
    first, second = supervisor(0), supervisor(1)
    park(first, second)
    talk(first, second)
    answer = second.me
    first.set_state(MemberState.RUNNING)
    second.set_state(MemberState.RUNNING)
    first.receive(second.me)
    first.receive(answer)
    assert first.all_running


def test_another_tensorflow_is_noticed():
    first = supervisor(0)
    first.receive(replace(supervisor(1).me, tensorflow="2.20.0"))
    other = first.other_version()
    assert other is not None
    assert other.tensorflow == "2.20.0"


def stand_by(*all_of_them: Membership) -> None:
    for one in all_of_them:
        one.adopt_generation()
        one.set_ready(standby=True)


def test_standbys_are_let_go_together():
    workers = formed(2)
    for worker in workers:
        worker.process_lost()
    stand_by(*workers)
    talk(*workers)
    assert all(worker.complete for worker in workers)
    assert not any(worker.standby_abandoned for worker in workers)


def test_a_standby_is_not_let_go_beside_a_new_process():
    first, second = formed(2)
    for worker in (first, second):
        worker.process_lost()
    stand_by(first)
    park(second)
    talk(first, second)
    assert not first.complete
    assert not second.complete
    assert first.standby_abandoned
    first.dismiss_standby()
    park(first)
    talk(first, second)
    assert first.complete
    assert second.complete
    assert first.me.generation == 2


def test_whoever_lost_its_standby_after_the_others_went_asks_for_the_next_generation():
    first, second = formed(2)
    for worker in (first, second):
        worker.process_lost()
    stand_by(first, second)
    talk(first, second)
    first.set_state(MemberState.RUNNING)
    second.dismiss_standby()
    park(second)
    talk(first, second)
    assert second.adopt_generation()
    talk(first, second)
    assert first.superseded


class Simulated:
    """A supervisor's use of the membership, with processes that live and die at random."""

    def __init__(self, membership: Membership) -> None:
        self.membership = membership
        self.prepared_with: set[str] | None = None
        """Incarnations of the supervisors whose standbys its standby has formed a cluster with."""

    @property
    def me(self) -> Member:
        return self.membership.me

    def turn(self) -> None:
        """What a supervisor does when it has heard something."""
        one = self.membership
        if one.superseded:
            one.process_lost()
        if one.me.state is MemberState.RUNNING:
            return
        moved = one.adopt_generation()
        if one.me.standby and (moved or one.standby_abandoned):
            one.dismiss_standby()
        if one.me.state is not MemberState.READY:
            one.set_ready(standby=not moved and self.prepared_with == self.peers())
            self.prepared_with = None
        if one.complete:
            one.set_state(MemberState.RUNNING)

    def peers(self) -> set[str]:
        return {peer.incarnation for peer in self.membership.known_peers.values()}

    def knows(self, other: "Simulated") -> bool:
        return other.me.incarnation in self.peers()

    def prepare(self) -> None:
        if self.membership.all_running:
            self.prepared_with = self.peers()


def disturb(workers: list[Simulated], chance: random.Random, name: str) -> None:
    index = chance.randrange(len(workers))
    match chance.randrange(5):
        case 0:
            workers[index] = Simulated(supervisor(index, len(workers), name))
        case 1:
            workers[index].prepared_with = None
        case 2 if workers[index].me.standby:
            workers[index].membership.process_lost()
        case _ if workers[index].me.state is MemberState.RUNNING:
            workers[index].membership.process_lost()


def mixed(workers: list[Simulated]) -> bool:
    """Whether a standby runs in one cluster with a new process, their supervisors being the same all the time."""
    running = [worker for worker in workers if worker.me.state is MemberState.RUNNING]
    return any(
        one.me.generation == other.me.generation
        and one.me.standby != other.me.standby
        and one.knows(other)
        and other.knows(one)
        for one in running
        for other in running
    )


def test_whatever_is_lost_and_replaced_in_whatever_order_all_run_the_same_cluster_in_the_end():
    promoted = 0
    for seed in range(300):
        chance = random.Random(seed)
        workers = [Simulated(one) for one in formed(chance.randint(2, 4))]
        for number in range(40):
            if chance.random() < 0.2:
                disturb(workers, chance, f"r{number}-")
            for worker in chance.sample(workers, len(workers)):
                worker.turn()
                if chance.random() < 0.5:
                    worker.prepare()
            assert not mixed(workers), seed
            promoted += sum(worker.me.standby and worker.me.state is MemberState.RUNNING for worker in workers)
            speaker, listener = chance.sample(workers, 2)
            listener.membership.receive(speaker.me)
            speaker.membership.receive(listener.me)
        for _ in range(8):
            talk(*(worker.membership for worker in workers))
            for worker in workers:
                worker.turn()
        assert {worker.me.state for worker in workers} == {MemberState.RUNNING}, seed
        assert len({(worker.me.generation, worker.me.member_set) for worker in workers}) == 1, seed
    assert promoted > 100, "the dice have to let standbys take over often enough"


def test_a_member_survives_its_way_to_a_peer():
    member = replace(supervisor(1).me, in_callback=True, standby=True, standby_port=7, generation=3, cause="killed")
    assert Member.from_json(member.to_json()) == member
    first = supervisor(0)
    first.receive(member)
    assert first.peer_in_callback
