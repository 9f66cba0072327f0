"""The in-process API server answers as the real one does."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
import pytest_asyncio

from tests.support.apiserver import ApiServer, Cut, Hang, gateway_timeout, too_many_requests

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

PODS = "/api/v1/namespaces/default/pods"
JOBS = "/apis/dtj.dev/v1alpha1/namespaces/default/distributedtrainingjobs"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
MERGE = "application/merge-patch+json"


def pod(name: str, **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, **metadata}, "spec": {"containers": [{"name": "main", "image": "trainer:1"}]}}


def job(name: str) -> dict[str, Any]:
    template = {"spec": {"containers": [{"name": "tensorflow", "image": "trainer:1"}]}}
    return {"metadata": {"name": name}, "spec": {"replicaSpecs": {"worker": {"replicas": 2, "template": template}}}}


class Client:
    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self.session, self.url = session, url

    async def __call__(
        self, method: str, path: str, body: Any = None, content_type: str = "application/json", **headers: str
    ) -> tuple[int, dict[str, Any]]:
        sent = {"Content-Type": content_type, **headers}
        payload = json.dumps(body) if body is not None else None
        async with self.session.request(method, self.url + path, data=payload, headers=sent) as answer:
            return answer.status, await answer.json()

    async def events(self, path: str, count: int) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        async with self.session.get(self.url + path) as answer:
            while len(found) < count and (line := await asyncio.wait_for(answer.content.readline(), 5)):
                found.append(json.loads(line))
        return found


@pytest_asyncio.fixture
async def server() -> AsyncIterator[ApiServer]:
    async with ApiServer(crd=None) as running:
        yield running


@pytest_asyncio.fixture
async def client(server: ApiServer) -> AsyncIterator[Client]:
    async with aiohttp.ClientSession(headers={"User-Agent": "test/1"}) as session:
        yield Client(session, server.url)


# writes ---------------------------------------------------------------------------------------


async def test_a_created_object_has_an_identity_and_cannot_be_created_twice(client):
    code, made = await client("POST", PODS, pod("a"))
    assert code == 201
    assert made["metadata"]["uid"]
    assert made["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    code, said = await client("POST", PODS, pod("a"))
    assert (code, said["reason"]) == (409, "AlreadyExists")


async def test_a_new_incarnation_has_a_new_uid_and_a_higher_resource_version(server):
    first = server.create("pods", pod("a"))
    server.delete("pods", "default", "a", grace_seconds=0)
    second = server.create("pods", pod("a"))
    assert first["metadata"]["uid"] != second["metadata"]["uid"]
    assert int(second["metadata"]["resourceVersion"]) > int(first["metadata"]["resourceVersion"])


async def test_a_stale_update_or_patch_is_a_conflict(client):
    _, made = await client("POST", JOBS, job("a"))
    fresh = {**made, "metadata": {**made["metadata"], "labels": {"x": "1"}}}
    assert (await client("PUT", f"{JOBS}/a", fresh))[0] == 200
    code, said = await client("PUT", f"{JOBS}/a", fresh)
    assert (code, said["reason"]) == (409, "Conflict")
    stale = {"metadata": {"resourceVersion": made["metadata"]["resourceVersion"], "labels": {"x": "2"}}}
    assert (await client("PATCH", f"{JOBS}/a", stale, MERGE))[0] == 409


async def test_an_update_that_changes_nothing_makes_no_revision(client, server):
    _, made = await client("POST", JOBS, job("a"))
    before = server.store.revision
    code, said = await client("PUT", f"{JOBS}/a", made)
    assert code == 200
    assert said["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
    assert server.store.revision == before


async def test_generation_counts_changes_of_the_spec_alone(client):
    await client("POST", JOBS, job("a"))
    _, labelled = await client("PATCH", f"{JOBS}/a", {"metadata": {"labels": {"x": "1"}}}, MERGE)
    assert labelled["metadata"]["generation"] == 1
    _, changed = await client("PATCH", f"{JOBS}/a", {"spec": {"suspend": True}}, MERGE)
    assert changed["metadata"]["generation"] == 2


async def test_the_status_subresource_changes_the_status_and_nothing_else_does(client):
    _, made = await client("POST", JOBS, {**job("a"), "status": {"phase": "Running"}})
    assert "status" not in made
    both = {"metadata": {"labels": {"x": "1"}}, "spec": {"suspend": True}, "status": {"phase": "Failed"}}
    _, after = await client("PATCH", f"{JOBS}/a/status", both, MERGE)
    assert after["status"] == {"phase": "Failed"}
    assert "suspend" not in after["spec"]
    assert "labels" not in after["metadata"]
    _, after = await client("PATCH", f"{JOBS}/a", {"status": {"phase": "Running"}, "spec": {"suspend": True}}, MERGE)
    assert after["status"] == {"phase": "Failed"}
    assert after["spec"]["suspend"] is True


async def test_a_lease_is_updated_only_with_a_resource_version(client):
    lease = {"metadata": {"name": "leader"}, "spec": {"holderIdentity": "a", "leaseDurationSeconds": 15}}
    assert (await client("POST", LEASES, lease))[0] == 201
    assert (await client("PUT", f"{LEASES}/leader", lease))[0] == 422


async def test_a_json_patch_whose_test_fails_changes_nothing(client):
    await client("POST", JOBS, job("a"))
    patch = [
        {"op": "test", "path": "/metadata/resourceVersion", "value": "1"},
        {"op": "add", "path": "/spec/suspend", "value": True},
    ]
    assert (await client("PATCH", f"{JOBS}/a", patch, "application/json-patch+json"))[0] == 422
    assert "suspend" not in (await client("GET", f"{JOBS}/a"))[1]["spec"]


async def test_a_pod_without_containers_or_with_a_changed_spec_is_invalid(client):
    assert (await client("POST", PODS, {"metadata": {"name": "a"}, "spec": {}}))[0] == 422
    _, made = await client("POST", PODS, pod("a"))
    made["spec"]["hostname"] = "other"
    assert (await client("PUT", f"{PODS}/a", made))[0] == 422


async def test_dry_run_answers_and_commits_nothing(client, server):
    assert (await client("POST", f"{PODS}?dryRun=All", pod("a")))[0] == 201
    assert server.get("pods", "default", "a") is None


# deletions ------------------------------------------------------------------------------------


async def test_a_bound_pod_goes_when_the_kubelet_confirms_and_an_unbound_one_at_once(client, server):
    server.create("pods", pod("unbound"))
    await client("DELETE", f"{PODS}/unbound")
    assert server.get("pods", "default", "unbound") is None
    bound = pod("bound")
    bound["spec"]["nodeName"] = "node-a"
    server.create("pods", bound)
    _, said = await client("DELETE", f"{PODS}/bound")
    assert said["metadata"]["deletionGracePeriodSeconds"] == 30
    assert server.get("pods", "default", "bound") is not None
    await client("DELETE", f"{PODS}/bound", {"gracePeriodSeconds": 0})
    assert server.get("pods", "default", "bound") is None


async def test_a_deletion_with_a_foreign_uid_is_a_conflict(client, server):
    server.create("pods", pod("a"))
    code, said = await client("DELETE", f"{PODS}/a", {"preconditions": {"uid": "other"}})
    assert (code, said["reason"]) == (409, "Conflict")


async def test_finalizers_hold_an_object_until_the_last_is_removed(client, server):
    await client("POST", JOBS, {**job("a"), "metadata": {"name": "a", "finalizers": ["x/y"]}})
    await client("DELETE", f"{JOBS}/a")
    assert server.get("distributedtrainingjobs", "default", "a")["metadata"]["deletionTimestamp"]
    await client("PATCH", f"{JOBS}/a", {"metadata": {"finalizers": []}}, MERGE)
    assert server.get("distributedtrainingjobs", "default", "a") is None


async def test_dependents_are_collected_a_while_after_their_owner(server):
    owner = server.create("distributedtrainingjobs", job("a"))
    reference = {
        "apiVersion": "dtj.dev/v1alpha1",
        "kind": "DistributedTrainingJob",
        "name": "a",
        "uid": owner["metadata"]["uid"],
    }
    server.create("pods", pod("a-0", ownerReferences=[reference]))
    server.delete("distributedtrainingjobs", "default", "a")
    assert server.get("pods", "default", "a-0") is not None
    await asyncio.sleep(0.1)
    assert server.get("pods", "default", "a-0") is None


async def test_a_namespace_that_terminates_refuses_creates_and_empties(server):
    server.create("namespaces", {"metadata": {"name": "team"}})
    server.create("pods", pod("a"), "team")
    server.gc.paused = True
    server.delete("namespaces", "", "team")
    with pytest.raises(Exception, match="because it is being terminated"):
        server.create("pods", pod("b"), "team")
    server.gc.paused = False
    server.gc.sweep()
    server.gc.sweep()
    assert server.get("namespaces", "", "team") is None


# reads ----------------------------------------------------------------------------------------


async def test_lists_select_by_labels_and_fields(client, server):
    for name, labels in {"a": {"role": "worker"}, "b": {"role": "ps"}, "c": {}}.items():
        server.create("pods", pod(name, labels=labels))

    async def names(query: str) -> list[str]:
        return [item["metadata"]["name"] for item in (await client("GET", f"{PODS}?{query}"))[1]["items"]]

    assert await names("labelSelector=role") == ["a", "b"]
    assert await names("labelSelector=role%20in%20(ps,chief)") == ["b"]
    assert await names("labelSelector=role!=ps") == ["a", "c"]
    assert await names("labelSelector=!role") == ["c"]
    assert await names("fieldSelector=metadata.name=b") == ["b"]


async def test_a_list_in_chunks_shows_one_moment_and_old_tokens_expire(client, server):
    for name in "abc":
        server.create("pods", pod(name))
    _, first = await client("GET", f"{PODS}?limit=2")
    server.delete("pods", "default", "c")
    token = first["metadata"]["continue"]
    _, second = await client("GET", f"{PODS}?limit=2&continue={token}")
    assert [item["metadata"]["name"] for item in first["items"] + second["items"]] == ["a", "b", "c"]
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    server.forget_history()
    server.create("pods", pod("d"))
    assert (await client("GET", f"{PODS}?limit=2&continue={token}"))[0] == 410


async def test_a_watch_tells_everything_after_its_revision(client, server):
    start = server.store.revision
    server.create("pods", pod("a"))
    server.patch("pods", "default", "a", {"metadata": {"labels": {"x": "1"}}})
    reading = asyncio.create_task(client.events(f"{PODS}?watch=1&resourceVersion={start}", 3))
    await asyncio.sleep(0.02)
    server.delete("pods", "default", "a")
    events = await reading
    assert [event["type"] for event in events] == ["ADDED", "MODIFIED", "DELETED"]
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in events]
    assert versions == sorted(versions)


async def test_an_object_that_leaves_the_selection_is_told_as_deleted(client, server):
    server.create("pods", pod("a", labels={"x": "1"}))
    start = server.store.revision
    server.patch("pods", "default", "a", {"metadata": {"labels": {"x": "2"}}})
    events = await client.events(f"{PODS}?watch=1&labelSelector=x=1&resourceVersion={start}", 1)
    assert events[0]["type"] == "DELETED"


async def test_a_watch_from_a_compacted_revision_ends_with_410_in_the_stream(client, server):
    start = server.store.revision
    server.create("pods", pod("a"))
    server.forget_history()
    events = await client.events(f"{PODS}?watch=1&resourceVersion={start}", 1)
    assert (events[0]["type"], events[0]["object"]["code"]) == ("ERROR", 410)


async def test_a_watch_ends_on_time_with_a_bookmark(client, server):
    path = f"{PODS}?watch=1&allowWatchBookmarks=true&timeoutSeconds=1&resourceVersion={server.store.revision}"
    events = await client.events(path, 9)
    assert [event["type"] for event in events] == ["BOOKMARK"]
    assert events[0]["object"]["metadata"]["resourceVersion"] == str(server.store.revision)


async def test_a_frozen_watch_cache_shows_the_past_and_consistent_reads_the_present(client, server):
    server.create("pods", pod("a"))
    start = server.store.revision
    server.freeze("pods")
    server.create("pods", pod("b"))
    cached = (await client("GET", f"{PODS}?resourceVersion=0"))[1]["items"]
    assert [item["metadata"]["name"] for item in cached] == ["a"]
    assert [item["metadata"]["name"] for item in (await client("GET", PODS))[1]["items"]] == ["a", "b"]
    assert (await client("GET", f"{PODS}/b"))[0] == 200
    reading = asyncio.create_task(client.events(f"{PODS}?watch=1&resourceVersion={start}", 1))
    await asyncio.sleep(0.02)
    assert not reading.done()
    server.thaw("pods")
    assert (await reading)[0]["object"]["metadata"]["name"] == "b"


# trouble --------------------------------------------------------------------------------------


async def test_quota_is_a_403_that_says_so(client, server):
    server.registry.pod_quota["default"] = 1
    assert (await client("POST", PODS, pod("a")))[0] == 201
    code, said = await client("POST", PODS, pod("b"))
    assert code == 403
    assert "exceeded quota" in said["message"]


async def test_rights_come_from_the_rules_of_the_token(client, server):
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}]
    server.access.grant("op", "system:serviceaccount:dtj-system:op", rules)
    headers = {"Authorization": "Bearer op"}
    assert (await client("GET", PODS, **headers))[0] == 200
    code, said = await client("POST", PODS, pod("a"), **headers)
    assert code == 403
    assert 'cannot create resource "pods"' in said["message"]
    review = {"spec": {"resourceAttributes": {"verb": "create", "resource": "pods"}}}
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    assert (await client("POST", path, review, **headers))[1]["status"] == {"allowed": False}


async def test_faults_strike_the_write_they_were_set_for(client, server):
    server.faults.on_write(1, Cut(after_commit=False), user_agent="test/")
    server.faults.on_write(2, Cut(after_commit=True), user_agent="test/")
    await client("POST", PODS, pod("a"))
    with pytest.raises(aiohttp.ClientError):
        await client("POST", PODS, pod("b"))
    assert server.get("pods", "default", "b") is None
    with pytest.raises(aiohttp.ClientError):
        await client("POST", PODS, pod("c"))
    assert server.get("pods", "default", "c") is not None
    assert [request.changed for request in server.log.writes("test/")] == [True, False, True]


async def test_answers_can_be_refusals_or_come_too_late(client, server):
    server.faults.add(lambda request: request.write, too_many_requests(7))
    assert (await client("POST", PODS, pod("a")))[0] == 429
    server.faults.add(lambda request: request.write, gateway_timeout())
    assert (await client("POST", PODS, pod("a")))[0] == 504
    assert server.get("pods", "default", "a") is not None
    server.faults.add(lambda request: request.write, Hang(0.2, after_commit=True))
    with pytest.raises(aiohttp.ClientError):
        await client("POST", PODS, pod("b"))


async def test_a_buried_client_reaches_nothing(client, server):
    server.kill_client("dead")
    with pytest.raises(aiohttp.ClientError):
        await client("GET", PODS, Authorization="Bearer dead")
