"""A network policy for each job, where the operator is told to make them."""

from __future__ import annotations

from tests.component.running_operator import JOBS, condition, job, running_operator, status, until
from tests.support.apiserver import ApiServer


async def test_a_policy_that_lets_in_its_own_pods_alone_stands_before_the_first_pod(api_server: ApiServer):
    async with running_operator(api_server, network_policy=True):
        api_server.create(JOBS, job())
        await until(lambda: len(api_server.list("pods")) == 2)
        made = [
            write.target.split("/")[0] for write in api_server.log.writes("dtj-operator/") if write.verb == "create"
        ]
    assert made.index("create networkpolicies") < made.index("create pods")
    (policy,) = api_server.list("networkpolicies")
    assert policy["metadata"]["name"] == "train"
    (own,) = policy["spec"]["ingress"][0]["from"]
    for pod in api_server.list("pods"):
        assert policy["spec"]["podSelector"] == own["podSelector"]
        assert own["podSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    assert policy["spec"]["ingress"][1:] == [{"ports": [{"protocol": "TCP", "port": 9401}]}]
    api_server.delete(JOBS, "default", "train")
    await until(lambda: not api_server.list("networkpolicies"))


async def test_no_pod_is_made_where_somebody_elses_policy_has_the_name(api_server: ApiServer):
    api_server.create("networkpolicies", {"metadata": {"name": "train", "namespace": "default"}, "spec": {}})
    async with running_operator(api_server, network_policy=True):
        api_server.create(JOBS, job())
        await until(lambda: condition(api_server, "Running")[1] == "NameTaken")
        assert "networkpolicy train exists and belongs to nobody" in status(api_server)["message"]
    assert api_server.list("pods") == []


async def test_without_being_told_no_policy_is_made(api_server: ApiServer):
    async with running_operator(api_server):
        api_server.create(JOBS, job())
        await until(lambda: len(api_server.list("pods")) == 2)
    assert api_server.list("networkpolicies") == []
