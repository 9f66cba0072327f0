from __future__ import annotations

from typing import Any

import pytest

from dtj_operator.runtime.source import Key
from dtj_operator.runtime.store import Store

TRAIN = Key("default", "train")


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
    store = Store(lambda _key: None)
    for version, domain, more in ((1, "old.example", {}), (2, "new.example", changed)):
        store.jobs.upsert(raw(version, domain=domain, **more))
        known = store.job(TRAIN)
        assert known is not None
        assert known.job.spec.cluster_domain == domain


def test_a_status_is_read_anew_though_the_spec_has_not_changed():
    store = Store(lambda _key: None)
    for version, phase in ((1, "Pending"), (2, "Starting"), (3, "Running")):
        store.jobs.upsert(raw(version, phase=phase))
        known = store.job(TRAIN)
        assert known is not None
        assert known.job.status.phase == phase
        assert known.job.resource_version == str(version)
