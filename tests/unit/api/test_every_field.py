"""What each field of the spec does.

A row names a field as the schema does (`*` is any role, `[]` any entry), where to look, and what is seen there for
each of some values. The rows follow the schema, and a test compares the two: a field that nobody has shown to do
anything cannot be added. Those of a pod template come last: they are Kubernetes' own and arrive in the pod as they are.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

import pytest

from dtj_operator.api.crd import crd
from dtj_operator.api.enums import ConditionType
from dtj_operator.builders.pod import build_pod
from dtj_operator.cache.profiles import Profiles
from dtj_operator.reconcile.state.plan import DeletePod
from tests.support.job_builder import Change, JobBuilder, done, failed, job, ready

if TYPE_CHECKING:
    from dtj_operator.kube.client import ApiClient

Look = Callable[[JobBuilder], Any]
TEMPLATE: Final = "replicaSpecs.*.template"
SPEC: Final = crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]


@dataclass(frozen=True, slots=True)
class Row:
    """One field."""

    field: str
    look: Look
    seen: dict[Any, Any]
    """What is seen for each value."""
    world: Callable[[], JobBuilder] = lambda: job(worker=2)
    among: dict[str, Any] | None = None
    """Other fields, which give this one something to do."""

    def __str__(self) -> str:
        return self.field


# The world in which one looks


def worlds(row: Row, value: Any) -> JobBuilder:
    world = row.world()
    for field, given in ((row.among or {}) | {row.field: value}).items():
        put(world.raw["spec"], field.split("."), given)
    return world


def put(where: Any, path: list[str], value: Any) -> None:
    """Set a field; `*` stands for the workers, `name[]` for the first entry of a list."""
    first, *rest = path
    name = {"*": "worker"}.get(first, first.removesuffix("[]"))
    if not rest:
        where[name] = [value] if first.endswith("[]") else value
        return
    if first.endswith("[]"):
        where = where.setdefault(name, [{}])
        put(where[0], rest, value)
        return
    put(where.setdefault(name, {}), rest, value)


# Where to look


def pods(world: JobBuilder) -> list[str]:
    return sorted(world.reconcile().pods)


def environment(variable: str, key: str) -> Look:
    """One key of a variable of the first worker that holds JSON, `a.b` for the key of a key."""

    def look(world: JobBuilder) -> Any:
        found = json.loads(variables(world.reconcile(), "train-worker-0")[variable])
        for part in key.split("."):
            found = found[part]
        return found

    return look


def strategy(key: str) -> Look:
    return environment("DTJ_STRATEGY", key)


def checkpoint(key: str) -> Look:
    return environment("DTJ_CHECKPOINT", key)


def variables(world: JobBuilder, pod: str, container: int = 0) -> dict[str, str]:
    return {entry["name"]: entry["value"] for entry in world.pods[pod]["spec"]["containers"][container].get("env", ())}


def who_has_tf_config(world: JobBuilder) -> list[str]:
    pod = world.reconcile().pods["train-worker-0"]
    everyone = enumerate(pod["spec"]["containers"])
    return [one["name"] for at, one in everyone if "TF_CONFIG" in variables(world, "train-worker-0", at)]


def address(world: JobBuilder) -> str:
    cluster = environment("TF_CONFIG", "cluster.worker")(world)
    return str(cluster[0])


def claim(world: JobBuilder) -> list[str]:
    volumes = world.reconcile().pods["train-worker-0"]["spec"].get("volumes", [])
    return [volume["persistentVolumeClaim"]["claimName"] for volume in volumes]


def selected(label: str) -> Look:
    """The value of a node label that worker 0 asks for."""

    def look(world: JobBuilder) -> Any:
        return world.reconcile().pods["train-worker-0"]["spec"]["nodeSelector"][label]

    return look


def problem_with_profile(world: JobBuilder) -> str:
    """What an operator without profiles says, which asks the API server nothing."""
    profiles = Profiles(cast("ApiClient", None), "dtj-system", "")
    return asyncio.run(profiles.apply(world.job))[0].profile_problem


def chips(world: JobBuilder) -> Any:
    return world.reconcile().pods["train-worker-0"]["spec"]["containers"][0]["resources"]["limits"]["google.com/tpu"]


def failed_reason(world: JobBuilder) -> str | None:
    """Reason of the Failed condition, if the job has failed."""
    condition = world.status.condition(ConditionType.FAILED)
    return str(condition.reason) if condition and condition.holds else None


def after(change: Change, role: str = "worker", index: int = 1, *, seconds: float = 0) -> Look:
    """Phase of a running job, and the reason if it failed, some time after that happened to a pod."""

    def look(world: JobBuilder) -> str:
        world.running().pod(role, index, change).reconcile().later(seconds).reconcile()
        return str(failed_reason(world) or world.status.phase)

    return look


def replaced_after(change: Change) -> Look:
    """The pods that go when that happened to worker 1, and how much of the budget is used then."""

    def look(world: JobBuilder) -> tuple[list[str], int]:
        world.running().pod("worker", 1, change).reconcile().later(1)
        outcome = world.decide()
        gone = [action.name for action in outcome.plan.actions if isinstance(action, DeletePod)]
        return sorted(gone), outcome.status.restarts.charged

    return look


def message_after(change: Change) -> Look:
    def look(world: JobBuilder) -> str:
        return world.running().pod("worker", 1, change).reconcile().later(1).reconcile().status.message

    return look


def waits(failures: int, *, running_between: float = 0) -> Look:
    """Seconds from the last of so many failures of worker 1 to its new pod."""

    def fail(world: JobBuilder) -> float:
        world.pod("worker", 1, failed(1))
        return until(world, lambda: world.act().creates != [])

    def look(world: JobBuilder) -> float:
        world.running()
        for _ in range(failures - 1):
            fail(world)
            world.each(ready()).reconcile().later(running_between).reconcile()
        return fail(world)

    return look


def until(world: JobBuilder, reached: Callable[[], bool]) -> float:
    """Go from one time at which something is due to the next; the seconds until something is so."""
    began = world.now
    for _ in range(20):
        if reached():
            return (world.now - began).total_seconds()
        check = world.decide().plan.requeue_at
        assert check is not None, f"nothing is due: {world.status.message}"
        world.now = check
    raise AssertionError(f"never: {world.status.message}")


def seconds_to_end(begin: Callable[[JobBuilder], JobBuilder]) -> Look:
    """Seconds until the job has failed by itself, or None when nothing is due."""

    def look(world: JobBuilder) -> tuple[float, str] | None:
        begin(world)
        if world.decide().plan.requeue_at is None:
            return None
        return until(world, lambda: world.reconcile().status.finished), str(failed_reason(world))

    return look


def seconds_to_removal(world: JobBuilder) -> float | None:
    world.running().pod("worker", 0, done()).reconcile().reap().reconcile()
    if world.decide().plan.requeue_at is None:
        return None
    return until(world, lambda: world.reconcile().job_deleted)


def left_after_success(world: JobBuilder) -> list[str]:
    world.running().pod("worker", 0, done()).reconcile().reap().reconcile()
    return [*sorted(world.pods), *(["service"] if world.service else [])]


def evaluator_after_success(world: JobBuilder) -> bool:
    world.running().pod("worker", 0, done()).reconcile().reap().reconcile()
    return "train-evaluator-0" in world.pods


def seconds_to_given_up(world: JobBuilder) -> float:
    silent = {
        "type": "Ready",
        "status": "False",
        "reason": "NodeNotReady",
        "lastTransitionTime": "2026-01-01T12:00:00Z",
    }
    world.running().pod("worker", 1, {"phase": "Running", "conditions": [silent]})
    return until(world, lambda: world.act().creates != [])


ONE: Final = ["train-worker-1"]
TWO: Final = ["train-worker-0", "train-worker-1"]
ALL: Final = ["train-chief-0", "train-ps-0", *TWO]
SIDECAR: Final = {"spec": {"containers": [{"name": "log", "image": "l:1"}, {"name": "tensorflow", "image": "t:1"}]}}
RULE: Final = "failurePolicy.rules[]"
FAIL: Final = {f"{RULE}.action": "FailJob"}
BY_RULE: Final = "FailedByRule"
BACKOFF: Final = "failurePolicy.backoff"


def three_roles() -> JobBuilder:
    return job(chief=1, worker=2, ps=1)


def one_worker_and_evaluator() -> JobBuilder:
    return job(worker=1, evaluator=1)


NO_PROFILES: Final = "and this operator has no profiles: see its flag --profiles"
SLICE: Final = {"tpu": {"accelerator": "tpu-v5-lite-podslice", "topology": "2x4", "chipsPerHost": 8}}
BOTH_TPUS: Final = {"tpu-v5-lite-podslice": "tpu-v5-lite-podslice", "tpu-v6e-slice": "tpu-v6e-slice"}
ROWS: Final = (
    Row("strategy.type", strategy("type"), {"Auto": "MultiWorkerMirrored", "None": "None"}),
    Row("strategy.crossDeviceOps", strategy("crossDeviceOps"), {"Auto": "Auto", "NCCL": "NCCL"}),
    Row(
        "strategy.communication.implementation",
        strategy("communication.implementation"),
        {"Auto": "Auto", "Ring": "Ring"},
    ),
    Row("strategy.communication.timeoutSeconds", strategy("communication.timeoutSeconds"), {0: 0, 30: 30}),
    Row("strategy.communication.bytesPerPack", strategy("communication.bytesPerPack"), {0: 0, 4096: 4096}),
    *(
        Row(f"strategy.variablePartitioner.{name}", strategy(f"variablePartitioner.{name}"), seen, three_roles)
        for name, seen in (
            ("type", {"MinSize": "MinSize", "FixedShards": "FixedShards"}),
            ("minShardBytes", {262144: 262144, 1024: 1024}),
            ("maxShards", {2: 2, 7: 7}),
        )
    ),
    Row("replicaSpecs.*.replicas", pods, {0: [], 1: TWO[:1], 2: TWO}),
    Row(
        "replicaSpecs.*.restartPolicy",
        after(failed(1), seconds=1),
        {"OnFailure": "Restarting", "Never": "RestartPolicyNever", "ExitCode": "PermanentFailure"},
    ),
    Row(
        "mainContainer",
        who_has_tf_config,
        {"": ["tensorflow"], "log": ["log"]},
        among={TEMPLATE: SIDECAR},
    ),
    Row(
        "clusterDomain",
        address,
        {"": "train-worker-0.train.team.svc:2222", "here.local": "train-worker-0.train.team.svc.here.local:2222"},
    ),
    Row("successPolicy.type", after(done(), index=0), {"Chief": "Succeeded", "AllWorkers": "Running"}),
    Row(
        "successPolicy.waitForEvaluatorSeconds",
        evaluator_after_success,
        {0: False, 60: True},
        one_worker_and_evaluator,
    ),
    Row("failurePolicy.maxRestarts", after(failed(1), seconds=1), {0: "MaxRestartsExceeded", 1: "Restarting"}),
    Row(
        "failurePolicy.restartScope",
        replaced_after(failed(1)),
        {"Auto": (ONE, 1), "Pod": (ONE, 1), "Role": (TWO, 1), "Job": (ALL, 1)},
        three_roles,
    ),
    Row(f"{BACKOFF}.initialSeconds", waits(1), {0: 0, 7: 7}),
    Row(f"{BACKOFF}.maxSeconds", waits(2), {10: 10, 40: 20}, among={f"{BACKOFF}.initialSeconds": 10}),
    Row(
        f"{BACKOFF}.resetAfterSeconds",
        waits(2, running_between=100),
        {50: 10, 600: 20},
        among={f"{BACKOFF}.initialSeconds": 10},
    ),
    Row("failurePolicy.nodeLossSeconds", seconds_to_given_up, {15: 15, 60: 60}),
    Row(
        f"{RULE}.name",
        message_after(failed(1)),
        {
            "": "Failure rule rules[0] fails the job: train-worker-1 ended with exit code 1 (UserError)",
            "bad input": "Failure rule bad input fails the job: train-worker-1 ended with exit code 1 (UserError)",
        },
        among=FAIL,
    ),
    Row(f"{RULE}.roles", after(failed(1), seconds=1), {("worker",): BY_RULE, ("ps",): "Restarting"}, among=FAIL),
    Row(
        f"{RULE}.exitCodes.operator",
        after(failed(1), seconds=1),
        {"In": BY_RULE, "NotIn": "Restarting"},
        among=FAIL | {f"{RULE}.exitCodes.values": [1]},
    ),
    Row(
        f"{RULE}.exitCodes.values",
        after(failed(1), seconds=1),
        {(1, 2): BY_RULE, (2, 3): "Restarting"},
        among=FAIL | {f"{RULE}.exitCodes.operator": "In"},
    ),
    Row(
        f"{RULE}.reasons",
        after(failed(137, reason="OOMKilled"), seconds=1),
        {("OOMKilled",): BY_RULE, ("Evicted",): "Restarting"},
        among=FAIL,
    ),
    Row(
        f"{RULE}.messagePattern",
        after(failed(1, message="no such file"), seconds=1),
        {"no such f.le$": BY_RULE, "^file": "Restarting"},
        among=FAIL,
    ),
    Row(
        f"{RULE}.action",
        replaced_after(failed(1)),
        {
            "Ignore": (ONE, 0),
            "RestartPod": (ONE, 1),
            "RestartRole": (TWO, 1),
            "RestartJob": (ALL, 1),
            "FailJob": (["train-chief-0", "train-ps-0", "train-worker-0"], 0),
        },
        three_roles,
    ),
    Row(
        f"{RULE}.countTowardsLimit",
        replaced_after(failed(1)),
        {True: (ONE, 1), False: (ONE, 0)},
        among={f"{RULE}.action": "RestartPod"},
    ),
    Row("suspend", pods, {False: TWO, True: []}),
    Row("managedBy", pods, {"": TWO, "dtj.dev/operator": TWO, "somebody/else": []}),
    Row(
        "activeDeadlineSeconds",
        seconds_to_end(JobBuilder.running),
        {None: None, 90: (90, "DeadlineExceeded")},
    ),
    Row(
        "startDeadlineSeconds",
        seconds_to_end(JobBuilder.reconcile),
        {None: None, 20: (20, "StartDeadlineExceeded")},
    ),
    Row("ttlSecondsAfterFinished", seconds_to_removal, {None: None, 40: 40}),
    Row(
        "cleanPodPolicy",
        left_after_success,
        {"Running": ["train-worker-0", "service"], "All": [], "None": [*TWO, "service"]},
    ),
    Row("profile", problem_with_profile, {"": "", "l4": f"spec.profile is l4, {NO_PROFILES}"}),
    Row("tpu.accelerator", selected("cloud.google.com/gke-tpu-accelerator"), BOTH_TPUS, among=SLICE),
    Row("tpu.topology", selected("cloud.google.com/gke-tpu-topology"), {"2x4": "2x4", "2x2x2": "2x2x2"}, among=SLICE),
    Row("tpu.chipsPerHost", chips, {8: "8", 4: "4"}, world=lambda: job(chief=1, worker=2), among=SLICE),
    Row("checkpoint.directory", checkpoint("directory"), {"": "", "/elsewhere": "/elsewhere"}),
    Row("checkpoint.persistentVolumeClaim", claim, {"": [], "disk": ["disk"]}),
    Row("checkpoint.everySteps", checkpoint("everySteps"), {0: 0, 50: 50}),
    Row("checkpoint.everySeconds", checkpoint("everySeconds"), {60: 60, 5: 5}),
    Row("checkpoint.keep", checkpoint("keep"), {3: 3, 1: 1}),
)


OURS: Final = {
    "metadata.generateName": None,
    "metadata.name": "train-worker-0",
    "metadata.namespace": "team",
    "spec.hostname": "train-worker-0",
    "spec.restartPolicy": "Never",
    "spec.subdomain": "train",
}
"""What the operator sets itself, whatever the template says."""
SHAPED: Final[dict[str, Any]] = {
    "affinity": {"podAntiAffinity": {}},
    "env": [{"name": "A", "value": "1"}],
    "labels": {"app": "train"},
    "ports": [{"containerPort": 80}],
    "resources": {"limits": {"cpu": "1"}},
    "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    "volumes": [{"name": "data", "emptyDir": {}}],
}
"""Fields that the operator reads itself, and so must have their shape; any other may have any value."""


def leaves(schema: dict[str, Any], path: str = "") -> Iterator[str]:
    """The fields that have no fields of their own."""
    if isinstance(others := schema.get("additionalProperties"), dict):
        yield from leaves(others, f"{path}.*")
    elif schema.get("type") == "array" and "properties" in schema["items"]:
        yield from leaves(schema["items"], f"{path}[]")
    elif "properties" in schema:
        for name, child in schema["properties"].items():
            yield from leaves(child, f"{path}.{name}".removeprefix("."))
    else:
        yield path


FIELDS: Final = [field for field in leaves(SPEC) if not field.startswith(TEMPLATE)]
OF_A_TEMPLATE: Final = [field.removeprefix(f"{TEMPLATE}.") for field in leaves(SPEC) if field.startswith(TEMPLATE)]


def test_every_field_of_the_schema_has_its_row():
    assert [row.field for row in ROWS] == FIELDS


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_a_field_does_what_its_row_says(row: Row):
    assert len({repr(seen) for seen in row.seen.values()}) > 1, "a row shows a difference"
    assert {value: row.look(worlds(row, value)) for value in row.seen} == row.seen


@pytest.mark.parametrize("field", OF_A_TEMPLATE)
def test_a_field_of_a_template_arrives_in_the_pod(field: str):
    given = SHAPED.get(field.rpartition(".")[2], f"any {field}")
    world = job(worker=1)
    put(world.raw["spec"], f"{TEMPLATE}.{field}".split("."), given)
    found: Any = build_pod(world.job, "worker", 0, 0)
    for part in field.split("."):
        found = found.get(part.removesuffix("[]"))
        if part.endswith("[]"):
            found = found[-1]
    if field in OURS:
        assert found == OURS[field]
    elif isinstance(given, list):
        assert given[0] in found
    elif isinstance(given, dict):
        assert given.items() <= found.items()
    else:
        assert found == given
