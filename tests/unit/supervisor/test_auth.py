"""Which requests are accepted on port 9401: those that are signed with the job's UID, for this pod, now, once."""

from dataclasses import replace

import pytest

from dtj_trainer.cluster.tf_config import Task
from dtj_trainer.supervisor.http.auth import (
    NANOSECONDS,
    REMEMBERED,
    VALID_SECONDS,
    Authenticator,
    SignedRequest,
    Verdict,
)

ME, PEER = Task("worker", 0), Task("worker", 1)
NOW = 1_700_000_000 * NANOSECONDS


class Clock:
    def __init__(self, now: int = NOW) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now


def pod(task: Task = ME, uid: str = "secret", clock: Clock | None = None) -> Authenticator:
    return Authenticator(uid, task, [ME, PEER], clock or Clock())


def request(sender: Authenticator, body: bytes = b"{}", receiver: str = "worker-0") -> SignedRequest:
    return SignedRequest("POST", "/peer", body, sender.sign("POST", "/peer", receiver, body), local=False)


def test_a_member_of_the_cluster_is_heard_and_so_is_a_command_inside_the_pod():
    me = pod()
    assert me.check(request(pod(PEER))) is Verdict.ACCEPTED
    command = SignedRequest("POST", "/checkpoint", b"", pod().sign_command("POST", "/checkpoint"), local=True)
    assert me.check(command) is Verdict.ACCEPTED


@pytest.mark.parametrize(
    "forged",
    [
        request(pod(PEER, uid="another")),
        request(pod(PEER, uid="")),
        request(pod(PEER), receiver="worker-1"),
        request(pod(Task("worker", 7))),
        replace(request(pod(PEER)), method="GET"),
        replace(request(pod(PEER)), path="/checkpoint"),
        replace(request(pod(PEER)), path="/peer?x=1"),
        replace(request(pod(PEER)), body=b"{ }"),
        *(
            replace(request(pod(PEER)), header=header)
            for header in (
                "",
                "worker-1",
                "worker-1 worker-0 now mac",
                "worker-1 worker-0 ² mac",
                f"worker-1 worker-0 {NOW} ",
                f"worker-1 worker-0 {NOW} {'ä' * 64}",
                f"worker-1 worker-0 {'9' * 5000} {'0' * 64}",
                f"exec {request(pod(PEER)).header.split(' ', 1)[1]}",
                request(pod(PEER)).header.replace("worker-1", "worker-0"),
                request(pod(PEER)).header.replace(f"{NOW}", f"{NOW + 1}"),
            )
        ),
    ],
    ids=lambda forged: f"{forged.method} {forged.path} {forged.header[:40]}",
)
def test_a_forged_request_is_not_heard(forged: SignedRequest):
    assert pod().check(forged) is Verdict.FORGED


def test_a_signature_is_valid_once_however_many_followed():
    me, peer = pod(), pod(PEER)
    first = request(peer)
    assert me.check(first) is Verdict.ACCEPTED
    assert me.check(first) is Verdict.REPLAYED
    for _ in range(3 * REMEMBERED):
        assert me.check(request(peer)) is Verdict.ACCEPTED
    assert me.check(first) is Verdict.REPLAYED


def test_requests_that_overtake_each_other_are_heard():
    me, peer = pod(), pod(PEER)
    first, second = request(peer), request(peer)
    assert [me.check(second), me.check(first)] == [Verdict.ACCEPTED, Verdict.ACCEPTED]


@pytest.mark.parametrize("seconds", [-VALID_SECONDS - 1, VALID_SECONDS + 1])
def test_a_late_and_a_future_request_are_refused(seconds: int):
    clock = Clock()
    late = request(pod(PEER, clock=clock))
    clock.now += seconds * NANOSECONDS
    assert pod(clock=clock).check(late) is Verdict.LATE


def test_without_a_uid_loopback_alone_is_heard():
    me = pod(uid="")
    for local, verdict in ((True, Verdict.ACCEPTED), (False, Verdict.FORGED)):
        assert me.check(replace(request(pod(PEER, uid="")), local=local)) is verdict
        assert me.check(SignedRequest("POST", "/checkpoint", b"", "", local)) is verdict


def test_an_answer_fits_its_request_alone():
    me, peer = pod(), pod(PEER)
    asked = request(peer)
    answer = me.sign_answer(asked, 200, b"member")
    assert peer.answer_time(asked.header, "/peer", answer, 200, b"member") == NOW
    assert peer.answer_time(asked.header, "/peer", answer, 409, b"member") is None
    assert peer.answer_time(asked.header, "/peer", answer, 200, b"another") is None
    assert peer.answer_time(request(peer).header, "/peer", answer, 200, b"member") is None
    assert peer.answer_time(asked.header, "/peer", asked.header, 200, b"{}") is None
    assert peer.answer_time(asked.header, "/peer", "", 200, b"member") is None
    stranger = pod(uid="another").sign_answer(asked, 200, b"member")
    assert peer.answer_time(asked.header, "/peer", stranger, 200, b"member") is None
