"""The whole operator on the API server in this process, with a simulated kubelet."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import UTC, datetime

import pytest

from dtj_operator.app import preflight
from dtj_operator.app.preflight import PreflightError
from dtj_operator.app.runnables import RestartNeeded
from dtj_operator.cache.namespaced_name import NamespacedName
from tests.component.running_operator import JOBS, condition, job, running_operator, status, until
from tests.support.apiserver import Answer, ApiServer, Cut, Slow, gateway_timeout
from tests.support.kubelet import Kubelet, PodBehavior


@pytest.fixture
async def kubelet(api_server: ApiServer):
    async with Kubelet(api_server) as agent:
        yield agent


def names(server: ApiServer) -> list[str]:
    return [pod["metadata"]["name"] for pod in server.list("pods")]


def running(server: ApiServer, name: str = "train") -> bool:
    return condition(server, "Running", name)[0] == "True"


async def test_a_job_gets_its_service_and_pods_and_is_running(api_server, kubelet):
    async with running_operator(api_server):
        api_server.create(JOBS, job())
        await until(lambda: running(api_server))
    assert names(api_server) == ["train-worker-0", "train-worker-1"]
    (service,) = api_server.list("services")
    assert service["metadata"]["name"] == "train"
    assert status(api_server)["phase"] == "Running"


async def test_kopf_lists_all_jobs_once_more_only_when_everything_is_known(api_server, kubelet):
    api_server.faults.add(lambda request: request.verb == "list" and request.resource == "pods", Slow(1.5))
    async with running_operator(api_server):
        lists = api_server.log.select(lambda request: request.verb == "list" and request.resource == JOBS)
        # One to see whether the kind is known, one of the operator's own.
        assert len(lists) == 2
        api_server.create(JOBS, job())
        await until(lambda: running(api_server))


async def test_a_job_needs_no_more_requests_than_promised(api_server, kubelet):
    async with running_operator(api_server):
        api_server.create(JOBS, job(worker=4))
        await until(lambda: running(api_server))
    writes = Counter(request.target.split("/")[0] for request in api_server.log.writes("dtj-operator/"))
    assert writes["create pods"] == 4
    assert writes["create services"] == 1
    assert sum(writes.values()) <= 4 + 10


async def test_while_nothing_changes_nothing_is_written(api_server, kubelet):
    async with running_operator(api_server):
        api_server.create(JOBS, job())
        await until(lambda: running(api_server))
        await asyncio.sleep(1.5)
        api_server.log.clear()
        await asyncio.sleep(2.0)
        assert api_server.log.writes("dtj-operator/") == []


async def test_a_pod_that_is_deleted_as_soon_as_it_is_there_was_deleted_and_is_replaced(api_server):
    # No kubelet: its pods are never bound, and gone at once. Counts of pods are not written for a second.
    async with running_operator(api_server):
        api_server.create(JOBS, job())
        await until(lambda: len(names(api_server)) == 2)
        api_server.delete("pods", "default", "train-worker-1")
        await until(lambda: status(api_server)["restarts"]["total"] == 1 and len(names(api_server)) == 2)
    assert status(api_server)["restarts"] == {"total": 1, "charged": 0, "byCause": {"Deleted": 1}, "inPlace": 0}
    assert status(api_server)["attempt"] == 1


async def test_a_deadline_fires_in_time_although_requests_have_failed_before(api_server, monkeypatch):
    monkeypatch.setattr("dtj_operator.controller.workqueue.FIRST_BACKOFF_SECONDS", 60.0)  # as after many failures
    # No kubelet: nothing happens to the pods, so that only time can wake the operator.
    async with running_operator(api_server):
        api_server.create(JOBS, job(activeDeadlineSeconds=4))
        await until(lambda: len(names(api_server)) == 2)
        failing = api_server.faults.add(lambda request: request.subresource == "status", Answer(500))
        api_server.delete("pods", "default", "train-worker-1")
        await until(lambda: failing.hits == 1)
        await until(lambda: condition(api_server, "Failed")[0] == "True")
    began = datetime.fromisoformat(status(api_server)["startTime"])
    assert 4.0 <= (datetime.now(UTC) - began).total_seconds() < 4.0 + 2.0


async def test_a_failed_worker_is_replaced_and_the_job_recovers(api_server, kubelet):
    async with running_operator(api_server) as operator:
        api_server.create(JOBS, job())
        await until(lambda: running(api_server))
        assert kubelet.exit("train-worker-1", 1)
        await until(lambda: kubelet.incarnations("train-worker-1") == 2 and running(api_server))
        assert status(api_server)["restarts"]["total"] == 1
        assert status(api_server)["attempt"] == 1
        assert operator.manager.metrics.registry.get_sample_value("dtj_restarts_total", {"cause": "UserError"}) == 1
        assert operator.manager.metrics.registry.get_sample_value("dtj_pods_created_total", {}) == 3


async def test_a_name_that_is_still_held_by_the_pod_that_goes_is_not_asked_for(api_server, kubelet):
    async with running_operator(api_server):
        api_server.create(JOBS, job())
        await until(lambda: running(api_server))
        # A kubelet tells first that the container has ended, and only later that the pod has; until then a
        # deletion takes its time.
        (container,) = api_server.get("pods", "default", "train-worker-1")["status"]["containerStatuses"]
        ended = {**container, "ready": False, "state": {"terminated": {"exitCode": 1, "reason": "Error"}}}
        change = {"status": {"containerStatuses": [ended]}}
        api_server.patch("pods", "default", "train-worker-1", change, subresource="status")
        await until(lambda: status(api_server)["attempt"] == 1 and running(api_server))
    assert kubelet.incarnations("train-worker-1") == 2
    refused = api_server.log.select(lambda request: request.resource == "pods" and request.code == 409)
    assert refused == []


async def test_the_success_of_worker_0_ends_the_job_and_the_others_go(api_server, kubelet):
    kubelet.script("train-worker-0", PodBehavior(exit_code=0, seconds=0.05))
    async with running_operator(api_server) as operator:
        api_server.create(JOBS, job())
        await until(lambda: condition(api_server, "Succeeded")[0] == "True")
        await until(lambda: names(api_server) == ["train-worker-0"])
        assert operator.manager.metrics.registry.get_sample_value("dtj_jobs_succeeded_total", {}) == 1
        assert operator.manager.metrics.registry.get_sample_value("dtj_jobs", {"phase": "Succeeded"}) == 1


async def test_counts_are_written_after_a_second_however_many_other_jobs_are_in_line(api_server):
    async with running_operator(api_server, workers=1) as operator:

        async def press() -> None:
            while True:
                for number in range(20):
                    operator.manager.queue.add(NamespacedName("default", f"other-{number}"))
                await asyncio.sleep(0)

        crowd = operator.run(press())
        api_server.create(JOBS, job())
        await until(lambda: len(names(api_server)) == 2)
        began = asyncio.get_running_loop().time()
        await until(lambda: status(api_server)["replicaStatuses"]["worker"]["created"] == 2)
        crowd.cancel()
        assert 0.5 < asyncio.get_running_loop().time() - began < 4.0


async def test_a_deleted_job_takes_everything_with_it(api_server, kubelet):
    async with running_operator(api_server):
        api_server.create(JOBS, job())
        await until(lambda: running(api_server))
        api_server.delete(JOBS, "default", "train")
        await until(lambda: not api_server.list("pods") and not api_server.list("services"))


async def test_a_job_that_replaces_a_refused_one_at_once_is_not_told_to_wait(api_server, kubelet):
    refusal = Answer(422, "Invalid", "spec.containers: Required value")
    faulty = api_server.faults.add(lambda request: request.target.startswith("create pods"), refusal, times=None)
    async with running_operator(api_server):
        api_server.create(JOBS, job())
        await until(lambda: condition(api_server, "Invalid")[0] == "True")
        api_server.faults.rules.remove(faulty)
        # Nobody gets a turn between the two.
        api_server.delete(JOBS, "default", "train")
        api_server.create(JOBS, job())
        await until(lambda: running(api_server), seconds=20.0)


async def test_an_operator_that_comes_back_goes_on_where_things_are(api_server, kubelet):
    async with running_operator(api_server):
        api_server.create(JOBS, job())
        await until(lambda: running(api_server))
    kubelet.exit("train-worker-0", 1)
    api_server.create(JOBS, job("second"))
    async with running_operator(api_server) as operator:
        await until(lambda: running(api_server, "second"))
        await until(lambda: kubelet.incarnations("train-worker-0") == 2 and running(api_server))
        assert kubelet.incarnations("train-worker-1") == 1
        assert operator.manager.metrics.registry.get_sample_value("dtj_jobs_created_total", {}) == 1


async def test_a_quota_shows_on_the_job_and_heals_by_itself(api_server, kubelet):
    api_server.registry.pod_quota["default"] = 1
    async with running_operator(api_server):
        api_server.create(JOBS, job())
        await until(lambda: condition(api_server, "Running") == ("False", "QuotaExceeded"))
        refused = [r for r in api_server.log.writes("dtj-operator/") if r.code == 403]
        assert len(refused) <= 2
        del api_server.registry.pod_quota["default"]
        await until(lambda: running(api_server), seconds=15)


async def test_an_evaluator_that_is_refused_is_told_and_keeps_no_worker_waiting(api_server, kubelet):
    manifest = job()
    roles = manifest["spec"]["replicaSpecs"]
    roles["evaluator"] = {"template": roles["worker"]["template"]}
    api_server.faults.add(
        lambda request: request.verb == "create" and request.name == "train-evaluator-0",
        Answer(403, "Forbidden", "violates PodSecurity"),
        times=None,
    )
    async with running_operator(api_server):
        api_server.create(JOBS, manifest)
        await until(lambda: "violates PodSecurity" in status(api_server).get("message", "") and running(api_server))
        api_server.delete("pods", "default", "train-worker-1", grace_seconds=0)
        await until(lambda: "train-worker-1" in names(api_server), seconds=4)


async def test_a_foreign_pod_in_a_slots_name_is_named_and_left_alone(api_server, kubelet):
    foreign = {"metadata": {"name": "train-worker-1"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    uid = api_server.create("pods", foreign)["metadata"]["uid"]
    async with running_operator(api_server):
        api_server.create(JOBS, job())
        await until(lambda: condition(api_server, "Running") == ("False", "NameTaken"))
        api_server.log.clear()
        await asyncio.sleep(1.5)
        assert [r for r in api_server.log.writes("dtj-operator/") if r.resource == "pods"] == []
        assert api_server.get("pods", "default", "train-worker-1")["metadata"]["uid"] == uid
        api_server.delete("pods", "default", "train-worker-1", grace_seconds=0)
        await until(lambda: running(api_server), seconds=15)


@pytest.mark.parametrize("fault", [Cut(), Cut(after_commit=True), gateway_timeout(), Answer(503)])
@pytest.mark.parametrize("write", range(6))
async def test_no_single_lost_write_changes_the_outcome(api_server, kubelet, fault, write):
    api_server.faults.on_write(write, fault, user_agent="dtj-operator/")
    async with running_operator(api_server) as operator:
        api_server.create(JOBS, job())
        await until(lambda: running(api_server))
        assert operator.manager.metrics.registry.get_sample_value("dtj_pods_created_total") == 2
    assert kubelet.incarnations("train-worker-0") == kubelet.incarnations("train-worker-1") == 1
    assert len(api_server.list("services")) == 1
    assert status(api_server)["restarts"]["total"] == 0


async def test_what_has_happened_is_told_although_the_server_stumbles_over_the_pods(api_server, kubelet):
    api_server.faults.add(lambda request: request.verb == "create" and request.resource == "pods", Answer(500))
    async with running_operator(api_server):
        api_server.create(JOBS, job())
        await until(lambda: running(api_server))
    told = Counter(event["reason"] for event in api_server.list("events"))
    assert told == {"Created": 1, "NoCheckpoints": 1, "Started": 1}


async def test_jobs_of_other_namespaces_are_left_alone_in_namespaced_mode(api_server, kubelet):
    async with running_operator(api_server, namespaces=("default",)):
        other = job("elsewhere")
        other["metadata"]["namespace"] = "kube-system"
        api_server.create(JOBS, other)
        api_server.create(JOBS, job())
        await until(lambda: running(api_server))
        assert names(api_server) == ["train-worker-0", "train-worker-1"]


async def test_a_namespace_whose_rights_went_with_it_leaves_the_others_served_until_it_is_back(
    api_server, kubelet, monkeypatch, caplog
):
    monkeypatch.setattr(preflight, "LEFT_OUT_SECONDS", 0.2)
    everything = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
    for namespace in ("default", "dtj-system"):
        api_server.access.grant("ours", "operator", everything, namespace)
    at_work = running_operator(api_server, token="ours", namespaces=("kube-system", "default"))
    await at_work.__aenter__()
    api_server.create(JOBS, job())
    await until(lambda: running(api_server))
    assert "namespace left out" in caplog.text
    api_server.access.grant("ours", "operator", everything, "kube-system")
    await asyncio.sleep(1.5)
    with pytest.raises(RestartNeeded, match="namespace kube-system can be worked in by now"):
        await at_work.__aexit__(None, None, None)


async def test_where_there_are_no_rights_in_any_namespace_nothing_is_begun(api_server):
    api_server.access.grant("ours", "operator", [], "default")
    at_work = running_operator(api_server, token="ours", namespaces=("kube-system", "default"))
    with pytest.raises(PreflightError, match="may not list distributedtrainingjobs in namespace kube-system"):
        await at_work.__aenter__()


async def test_a_job_in_whose_status_are_words_of_a_later_version_is_worked_on_and_they_stay(api_server, kubelet):
    api_server.create(JOBS, job())
    later = {"phase": "Queued", "later": {"of": "status"}, "restarts": {"byCause": {"Earthquake": 2}}}
    api_server.patch(JOBS, "default", "train", {"status": later}, subresource="status")
    async with running_operator(api_server):
        await until(lambda: running(api_server))
    found = status(api_server)
    assert (found["phase"], found["later"], found["restarts"]["byCause"]) == (
        "Running",
        {"of": "status"},
        {"Earthquake": 2},
    )


async def test_a_webhook_that_fails_is_told_on_the_job_until_it_answers_again(api_server, kubelet):
    words = 'Internal error occurred: failed calling webhook "inject.example.org": connection refused'
    api_server.faults.add(
        lambda request: request.verb == "create" and request.resource == "pods", Answer(500, message=words)
    )
    async with running_operator(api_server):
        api_server.create(JOBS, job())
        await until(lambda: condition(api_server, "Running") == ("False", "PodRefused"))
        assert words in status(api_server)["message"]
        await until(lambda: running(api_server), seconds=20)


async def test_many_namespaces_leave_room_for_requests_beside_their_watches(api_server, kubelet):
    others = tuple(f"team-{number}" for number in range(39))
    async with asyncio.timeout(30), running_operator(api_server, namespaces=(*others, "default")):
        api_server.create(JOBS, job())
        await until(lambda: running(api_server), seconds=20.0)


async def test_the_second_of_two_operators_takes_over_when_the_first_leaves(api_server, kubelet):
    first = running_operator(api_server, token="one", leader_elect=True)
    await first.__aenter__()
    api_server.create(JOBS, job())
    await until(lambda: running(api_server))
    async with running_operator(api_server, token="two", leader_elect=True):
        await asyncio.sleep(0.2)
        began = asyncio.get_running_loop().time()
        await first.__aexit__(None, None, None)
        api_server.create(JOBS, job("second"))
        await until(lambda: running(api_server, "second"))
        assert asyncio.get_running_loop().time() - began < 3.0
    assert kubelet.incarnations("train-worker-0") == 1


async def test_a_change_that_the_server_cannot_see_is_reported_and_not_acted_upon(api_server, kubelet):
    async with running_operator(api_server):
        begun = job()
        begun["spec"]["replicaSpecs"]["worker"]["template"]["metadata"] = {"fieldOfToday": 1}
        api_server.create(JOBS, begun)
        await until(lambda: running(api_server))
        pods = api_server.list("pods")
        keys = {"fieldOfToday": None, "fieldOfTomorrow": 1}
        change = {"spec": {"replicaSpecs": {"worker": {"template": {"metadata": keys}}}}}
        api_server.patch(JOBS, "default", "train", change)
        await until(lambda: condition(api_server, "Invalid") == ("True", "SpecChanged"))
        assert api_server.list("pods") == pods
