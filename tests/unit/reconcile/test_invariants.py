"""What holds in any world: Hypothesis plays kubelet, user, node and API server."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from dtj_operator.api.enums import Role
from dtj_operator.reconcile.state.blocked_writes import BlockedReason
from dtj_operator.reconcile.state.plan import CreatePod, DeletePod
from tests.support.job_builder import (
    JobBuilder,
    done,
    evicted,
    failed,
    job,
    not_ready,
    pending,
    ready,
    restarted,
    terminating,
    told,
    unschedulable,
)

CODES = st.one_of(st.integers(0, 255), st.sampled_from([0, 1, 42, 75, 137, 143]))
DISRUPTIONS = st.sampled_from(["", "", "PreemptionByScheduler", "DeletionByTaintManager", "EvictionByEvictionAPI"])
CLASSES = st.sampled_from(["user-error", "peer-lost", "preempted", "out-of-memory", "stalled", "nonsense"])

CHANGES = st.one_of(
    st.just(ready()),
    st.just(ready()),
    st.just(not_ready()),
    st.just(done()),
    st.just(terminating()),
    st.builds(lambda code, text, d: failed(code, message=text, disruption=d), CODES, st.text(max_size=8), DISRUPTIONS),
    st.builds(told, CLASSES, CODES),
    st.sampled_from(["Evicted", "OutOfcpu", "NodeLost", "Shutdown"]).map(evicted),
    st.just(pending("ImagePullBackOff", "no")),
    st.just(unschedulable("none fits")),
    st.builds(restarted, st.integers(1, 5), CODES),
)

POLICIES = st.sampled_from(["OnFailure", "OnFailure", "Never", "ExitCode"])
SERVING = st.sampled_from(["OnFailure", "Always", "Never", "ExitCode"])

RULES = st.lists(
    st.fixed_dictionaries(
        {"action": st.sampled_from(["Ignore", "RestartPod", "RestartRole", "RestartJob", "FailJob"])},
        optional={
            "roles": st.lists(st.sampled_from(["worker", "ps"]), max_size=2),
            "exitCodes": st.fixed_dictionaries(
                {"operator": st.sampled_from(["In", "NotIn"]), "values": st.lists(CODES, min_size=1, max_size=3)}
            ),
            "reasons": st.lists(st.sampled_from(["Evicted", "Error"]), max_size=2),
            "messagePattern": st.sampled_from(["", "a+", "(", "(?=x)", "[0-9]"]),
            "countTowardsLimit": st.booleans(),
        },
    ),
    max_size=2,
)


@st.composite
def jobs(draw: st.DrawFn) -> JobBuilder:
    replicas: dict[str, Any] = {
        "worker": {"replicas": draw(st.integers(0, 3)), "restartPolicy": draw(POLICIES)},
    }
    if draw(st.booleans()):
        replicas["chief"] = {"replicas": draw(st.integers(0, 1)), "restartPolicy": draw(POLICIES)}
    if draw(st.booleans()):
        replicas["ps"] = {"replicas": draw(st.integers(0, 2)), "restartPolicy": draw(SERVING)}
    if draw(st.booleans()):
        replicas["evaluator"] = {"replicas": 1, "restartPolicy": draw(SERVING)}
    strategy = draw(st.sampled_from(["Auto", "Auto", "None", "MultiWorkerMirrored", "TPU"]))
    return job(**replicas).spec(
        strategy={"type": strategy},
        suspend=draw(st.sampled_from([False, False, False, True])),
        successPolicy={
            "type": draw(st.sampled_from(["Chief", "AllWorkers"])),
            "waitForEvaluatorSeconds": draw(st.sampled_from([0, 5])),
        },
        cleanPodPolicy=draw(st.sampled_from(["Running", "All", "None"])),
        activeDeadlineSeconds=draw(st.sampled_from([None, None, 100])),
        startDeadlineSeconds=draw(st.sampled_from([None, None, 20])),
        ttlSecondsAfterFinished=draw(st.sampled_from([None, 0, 10])),
        failurePolicy={
            "maxRestarts": draw(st.integers(0, 3)),
            "restartScope": draw(st.sampled_from(["Auto", "Pod", "Role", "Job"])),
            "backoff": {
                "initialSeconds": draw(st.integers(0, 2)),
                "maxSeconds": draw(st.integers(2, 9)),
                "resetAfterSeconds": draw(st.sampled_from([0, 30])),
            },
            "rules": draw(RULES),
        },
    )


class AnyWorld(RuleBasedStateMachine):
    """A job, and everything that can happen to it, in any order."""

    world: JobBuilder

    @initialize(world=jobs())
    def begin(self, world: JobBuilder) -> None:
        self.world = world
        self.counts = (0, 0, 0)
        self.done: set[tuple[str, int]] = set()
        self.end: tuple[str, str] | None = None

    def _replicas(self) -> list[tuple[str, int]]:
        return [
            (pod["metadata"]["labels"]["dtj.dev/role"], int(pod["metadata"]["labels"]["dtj.dev/index"]))
            for pod in self.world.pods.values()
        ]

    @precondition(lambda self: self.world.pods)
    @rule(data=st.data(), change=CHANGES)
    def a_pod_changes(self, data: st.DataObject, change: dict[str, Any]) -> None:
        role, index = data.draw(st.sampled_from(self._replicas()))
        pod = self.world.pods[f"train-{role}-{index}"]
        if pod["status"]["phase"] not in {"Succeeded", "Failed"} or change.get("deleted"):
            self.world.pod(role, index, change)

    @rule()
    def all_become_ready(self) -> None:
        self.world.each(ready())

    @precondition(lambda self: self.world.pods)
    @rule(data=st.data())
    def a_pod_vanishes(self, data: st.DataObject) -> None:
        self.world.vanish(*data.draw(st.sampled_from(self._replicas())))

    @rule()
    def the_kubelet_reaps(self) -> None:
        self.world.reap()

    @precondition(lambda self: self.world.pods)
    @rule(data=st.data())
    def a_node_is_lost(self, data: st.DataObject) -> None:
        node = self.world.node_of(*data.draw(st.sampled_from(self._replicas())))
        if node:
            self.world.lose(node)

    @rule(seconds=st.sampled_from([0.2, 1, 3, 30]))
    def time_passes(self, seconds: float) -> None:
        self.world.later(seconds)

    @rule(workers=st.integers(0, 4))
    def the_user_scales(self, workers: int) -> None:
        self.world.scale(workers)

    @rule(suspend=st.booleans())
    def the_user_suspends_or_resumes(self, suspend: bool) -> None:  # noqa: FBT001
        self.world.spec(suspend=suspend)

    @rule(domain=st.sampled_from(["", "elsewhere"]))
    def the_spec_drifts(self, domain: str) -> None:
        self.world.spec(clusterDomain=domain)

    @rule(kind=st.sampled_from(list(BlockedReason)), index=st.integers(0, 2))
    def the_server_refuses(self, kind: BlockedReason, index: int) -> None:
        self.world.refuse(kind, f"train-worker-{index}")

    @rule()
    def the_server_refuses_nothing_any_more(self) -> None:
        self.world.blocked_writes.clear()

    @rule()
    def the_service_vanishes(self) -> None:
        self.world.service = None

    @rule()
    def one_pass(self) -> None:
        self.world.act()

    @rule(actions=st.integers(0, 2))
    def a_pass_that_crashes_after_the_status_write(self, actions: int) -> None:
        from dataclasses import replace

        plan = self.world.decide().plan
        self.world.apply(replace(plan, actions=plan.actions[:actions], events=()))

    @rule()
    def passes_until_nothing_is_left_to_do(self) -> None:
        self.world.reconcile(12)

    @invariant()
    def a_pass_has_a_sane_plan(self) -> None:
        plan = self.world.decide().plan
        assert plan == self.world.decide().plan, "deterministic"
        assert plan.status is not None
        created = [(a.role, a.index) for a in plan.actions if isinstance(a, CreatePod)]
        deleted = {a.name for a in plan.actions if isinstance(a, DeletePod)}
        assert len(created) == len(set(created))
        for role, index in created:
            name = f"train-{role}-{index}"
            assert name not in self.world.pods or name in deleted, "two pods of one replica"
            assert index not in plan.status.completed.get(Role(role), ()), "a completed replica runs again"
        if plan.requeue_at is not None:
            assert plan.requeue_at > self.world.now, "a hot loop"
        true = {c.type for c in plan.status.conditions if c.holds}
        assert len(true & {"Succeeded", "Failed", "Suspended"}) <= 1
        if true & {"Succeeded", "Failed"}:
            assert not created
            assert not true & {"Running", "Restarting"}
            assert plan.status.completion_time is not None
        if plan.status.phase == "Suspended":
            assert not created
            assert plan.status.start_time is None

    @invariant()
    def what_is_counted_or_done_is_never_forgotten(self) -> None:
        status = self.world.status
        counts = (status.attempt, status.restarts.total, status.restarts.charged)
        assert all(new >= old for new, old in zip(counts, self.counts, strict=True))
        self.counts = counts
        assert status.restarts.total == sum(status.restarts.by_cause.values())
        finished = {(str(role), i) for role, indexes in status.completed.items() for i in indexes}
        assert finished >= self.done
        self.done = finished
        if self.end is not None:
            assert (status.phase, str(status.completion_time)) == self.end
        elif status.finished:
            self.end = (status.phase, str(status.completion_time))


TestAnyWorld = AnyWorld.TestCase
TestAnyWorld.settings = settings(
    max_examples=40, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck)
)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(world=jobs(), changes=st.lists(st.tuples(st.integers(0, 9), CHANGES), max_size=6))
def test_a_decision_carried_out_leaves_nothing_to_do(world: JobBuilder, changes: list[tuple[int, dict[str, Any]]]):
    world.reconcile()
    for place, change in changes:
        pods = sorted(world.pods)
        if pods:
            labels = world.pods[pods[place % len(pods)]]["metadata"]["labels"]
            world.pod(labels["dtj.dev/role"], int(labels["dtj.dev/index"]), change)
        world.reconcile(12)
        assert world.decide().plan.events == ()
