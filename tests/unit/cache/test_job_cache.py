from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from dtj_operator.api.enums import Role
from dtj_operator.cache.job_cache import JobCache
from dtj_operator.cache.namespaced_name import NamespacedName

TRAIN = NamespacedName("default", "train")


def raw(version: int, *, uid: str = "u", generation: int = 1, domain: str = "", phase: str = "") -> dict[str, Any]:
    template = {"spec": {"containers": [{"name": "tensorflow", "image": "i"}]}}
    return {
        "metadata": {
            "namespace": "default",
            "name": "train",
            "uid": uid,
            "generation": generation,
            "resourceVersion": str(version),
        },
        "spec": {"replicaSpecs": {"worker": {"template": template}}, "clusterDomain": domain},
        "status": {"phase": phase} if phase else {},
    }


@pytest.mark.parametrize("changed", [{"generation": 2}, {"uid": "another"}])
def test_a_spec_that_has_changed_or_is_another_jobs_is_read_anew(changed: dict[str, Any]):
    cache = JobCache(lambda _key: None)
    for version, domain, more in ((1, "old.example", {}), (2, "new.example", changed)):
        cache.jobs.upsert(raw(version, domain=domain, **more))
        cached = cache.job(TRAIN)
        assert cached is not None
        assert cached.parse().spec.cluster_domain == domain


def test_a_status_is_read_anew_though_the_spec_has_not_changed():
    cache = JobCache(lambda _key: None)
    for version, phase in ((1, "Pending"), (2, "Starting"), (3, "Running")):
        cache.jobs.upsert(raw(version, phase=phase))
        cached = cache.job(TRAIN)
        assert cached is not None
        assert cached.parse().status.phase == phase
        assert cached.parse().resource_version == str(version)


def test_a_number_beyond_64_bits_in_a_template_loses_no_job():
    cache = JobCache(lambda _key: None)
    one = raw(1)
    one["spec"]["replicaSpecs"]["worker"]["template"]["spec"]["priority"] = 10**20
    cache.jobs.upsert(one)
    cached = cache.job(TRAIN)
    assert cached is not None
    assert cached.parse().spec.replica_specs[Role.WORKER].template["spec"]["priority"] == 1e20


def test_a_job_that_has_been_looked_at_takes_two_kilobytes():
    cache = JobCache(lambda _key: None)
    texts = [raw(number + 1, phase="Running") for number in range(200)]
    for number, one in enumerate(texts):
        one["metadata"]["name"] = f"train-{number}"
    tracemalloc.start()
    try:
        for number, one in enumerate(texts):
            cache.jobs.upsert(one)
            cached = cache.job(NamespacedName("default", f"train-{number}"))
            assert cached is not None
            cached.parse()
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held / len(texts) < 2000
