"""A profile is merged under the templates of a job as Kubernetes' strategic merge would."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from dtj_operator.api.enums import Role
from dtj_operator.api.job import spec_hash
from dtj_operator.builders.pod import build_pod
from dtj_operator.builders.profile import Profile, ProfileError, apply_profile
from dtj_operator.builders.strategy_choice import choose_strategy
from dtj_operator.reconcile.state.lifecycle import Lifecycle
from tests.support.job_builder import job, template

CHART = Path(__file__).resolve().parents[3] / "charts" / "dtj-operator"
OF_THE_CHART = [
    (file.stem, name, profile)
    for file in sorted(CHART.glob("values-*.yaml"))
    for name, profile in yaml.safe_load(file.read_text())["profiles"].items()
]
GPU = """
roles: [worker]
metadata: {labels: {pool: gpu, team: admins}, annotations: {a: b}}
spec:
  nodeSelector: {accelerator: l4, zone: a}
  tolerations: [{key: gpu, operator: Exists}]
  priorityClassName: high
  volumes: [{name: memory, emptyDir: {medium: Memory}}, {name: data, emptyDir: {}}]
  containers: [{name: exporter, image: "example.org/exporter:1"}]
mainContainer:
  resources: {limits: {nvidia.com/gpu: 2, memory: 8Gi}}
  env: [{name: A, value: profile}, {name: B, value: profile}]
  volumeMounts: [{name: memory, mountPath: /dev/shm}]
"""


def pod_of(role: str, text: str = GPU, **spec: Any) -> dict[str, Any]:
    given = template(**spec)
    main = given["spec"]["containers"][0]
    main["env"] = [{"name": "A", "value": "template"}, {"name": "C", "value": "template"}]
    main["resources"] = {"limits": {"memory": "4Gi"}}
    given["metadata"] = {"labels": {"team": "users"}}
    world = job(chief={"template": given}, worker={"replicas": 1, "template": given})
    return build_pod(apply_profile(world.job, Profile.parse("gpu", text)), role, 0, 0)


def test_what_the_template_says_wins_and_all_else_comes_from_the_profile():
    built = pod_of(
        "worker",
        nodeSelector={"zone": "b"},
        tolerations=[{"key": "mine", "operator": "Exists"}],
        priorityClassName="low",
        volumes=[{"name": "data", "hostPath": {"path": "/data"}}],
    )
    assert {name: built["metadata"]["labels"][name] for name in ("pool", "team")} == {"pool": "gpu", "team": "users"}
    assert built["metadata"]["annotations"] == {"a": "b"}
    spec = built["spec"]
    assert spec["nodeSelector"] == {"accelerator": "l4", "zone": "b"}
    assert [entry["key"] for entry in spec["tolerations"]] == ["mine", "gpu"]
    assert spec["priorityClassName"] == "low"
    assert [(one["name"], "hostPath" in one) for one in spec["volumes"]] == [("data", True), ("memory", False)]
    main, exporter = spec["containers"]
    assert (main["name"], exporter["name"]) == ("tensorflow", "exporter")
    assert main["resources"]["limits"] == {"nvidia.com/gpu": 2, "memory": "4Gi"}
    assert main["volumeMounts"] == [{"name": "memory", "mountPath": "/dev/shm"}]
    env = {entry["name"]: entry.get("value") for entry in main["env"]}
    assert [env[name] for name in "ABC"] == ["template", "profile", "template"]
    assert env["DTJ_GPUS"] == "2"


def test_a_profile_is_for_its_roles_alone():
    assert "nodeSelector" not in pod_of("chief")["spec"]
    assert pod_of("chief", "spec: {nodeSelector: {zone: a}}")["spec"]["nodeSelector"] == {"zone": "a"}


def test_the_gpus_of_a_profile_count_for_the_automatic_choice():
    merged = apply_profile(job(worker=1).job, Profile.parse("gpu", GPU))
    choice = choose_strategy(merged.spec)
    assert (choice.type, choice.reason) == ("Mirrored", "one pod with 2 GPUs")


def test_a_profile_is_no_change_of_the_spec():
    world = job(worker=1)
    merged = Lifecycle(apply_profile(world.job, Profile.parse("gpu", GPU)))
    merged.accept_spec()
    assert merged.spec_hash == spec_hash(world.job.spec)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: [", "is no YAML in line 1"),
        ("- a", "has to be an object of metadata, spec, mainContainer and roles"),
        ("containers: []", "has to be an object of metadata, spec, mainContainer and roles"),
        ("spec: 1", "spec of profile gpu has to be an object"),
        ("roles: [master]", "has to be a list of chief, worker, ps, evaluator"),
        ("spec: {volumes: [1]}", "spec.volumes of profile gpu has to be a list of objects"),
    ],
)
def test_a_profile_that_cannot_be_read_says_why(text: str, words: str):
    with pytest.raises(ProfileError, match=words):
        Profile.parse("gpu", text)


@pytest.mark.parametrize(("file", "name", "profile"), OF_THE_CHART, ids=lambda one: one if isinstance(one, str) else "")
def test_the_charts_profiles_fit_a_pod(file: str, name: str, profile: dict[str, Any]):
    found = Profile.parse(name, yaml.safe_dump(profile))
    built = build_pod(apply_profile(job(worker=1).job, found), "worker", 0, 0)
    volumes = {volume["name"] for volume in built["spec"].get("volumes", [])}
    mounts = {mount["name"] for mount in built["spec"]["containers"][0].get("volumeMounts", [])}
    assert mounts <= volumes
    assert found.roles == (frozenset(Role) if name == "spot" else {Role.CHIEF, Role.WORKER})
    assert all(key.startswith("cloud.google.com/gke-") for key in built["spec"]["nodeSelector"]), file
