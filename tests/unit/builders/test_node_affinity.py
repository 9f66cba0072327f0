from __future__ import annotations

import copy
from typing import Any

from dtj_operator.builders.node_affinity import PREFERRED, prefer_other_nodes
from dtj_operator.builders.pod import build_pod
from tests.support.job_builder import job, template


def test_a_pod_is_wished_away_from_a_node_and_may_still_come_back_to_it():
    pod = prefer_other_nodes(build_pod(job(worker=2).job, "worker", 1, 1), ["node-1", "node-2"])
    (wish,) = pod["spec"]["affinity"]["nodeAffinity"][PREFERRED]
    assert [one["values"] for one in wish["preference"]["matchFields"]] == [["node-1"], ["node-2"]]
    assert pod["spec"]["affinity"] == {"nodeAffinity": {PREFERRED: [wish]}}, "a wish, not a demand"


def test_what_the_template_wishes_and_demands_is_kept_and_the_template_not_changed():
    theirs = {"weight": 1, "preference": {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}}
    demand: dict[str, Any] = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}
    apart: dict[str, Any] = {"podAntiAffinity": {}}
    given = template(affinity={"nodeAffinity": {PREFERRED: [theirs], **demand}, **apart})
    before = copy.deepcopy(given)
    pod = build_pod(job(worker={"template": given}).job, "worker", 0, 0)
    affinity = prefer_other_nodes(pod, ["node-1"])["spec"]["affinity"]
    assert affinity["nodeAffinity"][PREFERRED][0] == theirs
    assert len(affinity["nodeAffinity"][PREFERRED]) == 2
    assert affinity["nodeAffinity"].items() >= demand.items()
    assert affinity.items() >= apart.items()
    assert given == before
