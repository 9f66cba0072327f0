"""The demo from the cluster to the curve, one act after the other."""

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from e2e import chart
from e2e.api import Api, core_path, jobs_path
from e2e.cluster import Cluster
from e2e.cluster.progress import phase, tell
from e2e.demo import loss_plot
from e2e.demo.progress_view import Screen
from e2e.failure import Failure
from e2e.job_monitor import CALM_SECONDS, CLOSE_SECONDS, Watcher
from e2e.jobs import Job, Variation, manifest, vary
from e2e.kill import kill_training
from e2e.recovery import Recovery, recovery

NAMESPACE = "demo"
JOB = "digits"
CLAIM = "checkpoints"
OURS = {"app.kubernetes.io/managed-by": "dtj-demo"}
"""The label of all that the demo makes in a cluster, but for the operator."""
START_SECONDS = 120
STILL_SECONDS = 120
"""A job that reports nothing new for so long has failed the demo."""
RECOVERY_SECONDS = 60
KILL_AT = 0.4
"""Which share of the steps is done when a worker is killed."""
GOOD_ACCURACY = 0.95


@dataclass(frozen=True)
class Ending:
    """What the demo has to show for itself; None where it did not come so far."""

    phase: str
    accuracy: float | None = None
    steps: int | None = None
    expected_steps: int | None = None
    killed_at: float | None = None
    recovered: Recovery | None = None


def prepare(cluster: Cluster, api: Api, operator: str) -> None:
    """The operator installed from the image `operator`, an empty claim for the checkpoints."""
    with phase("operator, by helm"):
        chart.install(cluster, operator)
    with phase("shared volume for the checkpoints"):
        clear(cluster, api)


def prepare_among_others(cluster: Cluster, api: Api, operator: str) -> None:
    """The same on a cluster of somebody else: an operator that is there is used as it is.

    Raises Failure, before anything is changed, where something that no demo made is in the way.
    """
    demand_own(api)
    release = chart.installed(cluster)
    if release is None:
        prepare(cluster, api, operator)
        return
    demand_serving(release)
    tell(f"The operator of release {chart.RELEASE} in namespace {chart.NAMESPACE} is used as it is, not {operator}.")
    with phase("shared volume for the checkpoints"):
        clear(cluster, api)


def demand_own(api: Api) -> None:
    """Failure where what the demo deletes, at its beginning or when people take it away, is not a demo's."""
    for what, path in (
        (f"namespace {NAMESPACE}", f"/api/v1/namespaces/{NAMESPACE}"),
        (f"claim {CLAIM} in namespace {NAMESPACE}", core_path(NAMESPACE, "persistentvolumeclaims", CLAIM)),
        (f"job {JOB} in namespace {NAMESPACE}", jobs_path(NAMESPACE, JOB)),
    ):
        found = api.find(path)
        if found is not None and not OURS.items() <= found["metadata"].get("labels", {}).items():
            raise Failure(
                f"The {what} was not made by a demo, which deletes what it finds under this name: delete it first if "
                "nobody needs it, or choose another cluster."
            )


def demand_serving(release: dict[str, Any]) -> None:
    """Failure where the operator that is there does not work in the demo's namespace."""
    which = f"Release {chart.RELEASE} in namespace {chart.NAMESPACE}"
    if (status := release["info"]["status"]) != "deployed":
        raise Failure(
            f"{which} is {status}, not deployed: mend it, or take it away with "
            f"`helm uninstall {chart.RELEASE} -n {chart.NAMESPACE}`, and run the demo again."
        )
    watched = (release.get("config") or {}).get("watchNamespaces") or [NAMESPACE]
    if NAMESPACE not in watched:
        raise Failure(f"{which} works in {', '.join(watched)} alone, not in {NAMESPACE}: choose another cluster.")


def clear(cluster: Cluster, api: Api) -> None:
    """Take away what an earlier demo left in the namespace, and give it an empty claim."""
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": OURS}}
    api.apply(f"/api/v1/namespaces/{NAMESPACE}", space)
    claim = core_path(NAMESPACE, "persistentvolumeclaims", CLAIM)
    used = api.find(claim) is not None
    if used:
        previous = Job(api, NAMESPACE, JOB)
        previous.delete()
        wait_until(lambda: not previous.pods(), 60, "The pods of the previous demo did not go away")
    directory = cluster.shared_volume(NAMESPACE, CLAIM)
    if directory is not None:
        for entry in directory.iterdir():
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    elif used:
        api.delete(claim)
        wait_until(lambda: api.find(claim) is None, 60, "The claim of the previous demo did not go away")
        cluster.shared_volume(NAMESPACE, CLAIM)
    api.patch(claim, {"metadata": {"labels": OURS}})


def start(api: Api, variation: Variation) -> Job:
    job = vary(manifest(), variation)
    job["metadata"]["labels"] = OURS
    return Job.create(api, NAMESPACE, job)


def follow(  # the acts of one job in their order
    cluster: Cluster, job: Job, watcher: Watcher, screen: Screen, variation: Variation, *, kill: bool
) -> Ending:
    """Watch the job to its end, kill one worker's training process on the way, and time the recovery."""
    ending = Ending("Unknown", expected_steps=variation.expected_steps)
    watch_until(screen, watcher, job, lambda: trained(watcher, variation.workers) > 0, START_SECONDS, "train")
    if kill:
        threshold = int(KILL_AT * variation.expected_steps)
        watch_until(
            screen, watcher, job, lambda: trained(watcher, variation.workers) >= threshold, STILL_SECONDS, "go on"
        )
        ending = strike(cluster, watcher, screen, variation, ending)
    watch_until(
        screen, watcher, job, lambda: watcher.world.condition("Succeeded") is not None, STILL_SECONDS, "succeed"
    )
    status = job.status()
    final = status.get("progress", {})
    return replace(
        ending, phase=status["phase"], steps=final.get("step"), accuracy=final.get("metrics", {}).get("val_accuracy")
    )


def strike(cluster: Cluster, watcher: Watcher, screen: Screen, variation: Variation, ending: Ending) -> Ending:
    """`kill -9` the last worker's training process, and wait until every worker has made a new step."""
    pods = watcher.look().pods
    victim = pods[-1]
    watcher.pace = CLOSE_SECONDS
    time.sleep(3 * CALM_SECONDS)  # the watcher's present pause ends, and a few close looks lie before the kill
    killed_at, pid = kill_training(cluster, victim)
    name, node = victim["metadata"]["name"], victim["spec"]["nodeName"]
    screen.tell(f"kill -9 {pid}: the training process of {name} on {node} is gone")
    names = [pod["metadata"]["name"] for pod in pods]
    deadline = time.monotonic() + RECOVERY_SECONDS
    while (back := recovery(watcher.samples, killed_at, names)) is None:
        if time.monotonic() > deadline:
            raise Failure(
                f"The workers did not all train again within {RECOVERY_SECONDS} s after {name} was killed: look at "
                f"`kubectl -n {NAMESPACE} logs {name}`."
            )
        screen.show()
        time.sleep(CLOSE_SECONDS)
    watcher.pace = CALM_SECONDS
    each = ", ".join(f"{pod} {seconds:.2f} s" for pod, seconds in back.seconds.items())
    screen.tell(f"all {variation.workers} workers train again after {back.all_train:.2f} s ({each})")
    screen.tell(f"{back.lost_steps} steps since the last checkpoint are trained again")
    return replace(ending, killed_at=killed_at, recovered=back)


def trained(watcher: Watcher, workers: int) -> int:
    """The step that all workers have reached; 0 until each of them has reported one."""
    pods = watcher.world.pods
    latest = [watcher.latest(pod["metadata"]["name"]) for pod in pods]
    steps = [sample.step for sample in latest if sample is not None and sample.step is not None]
    return min(steps) if len(steps) == workers else 0


def watch_until(
    screen: Screen, watcher: Watcher, job: Job, done: Callable[[], bool], still_seconds: float, what: str
) -> None:
    """Show the job until `done`; Failure when it fails, or when nothing new is reported for `still_seconds`."""
    changed, last = time.monotonic(), None
    while not done():
        screen.show()
        world = watcher.world
        failed = world.condition("Failed")
        if failed is not None:
            raise Failure(f"Job {job.name} failed ({failed.get('reason')}): {failed.get('message')}")
        now = watcher.samples[-1].updated if watcher.samples else world.phase
        if now != last:
            changed, last = time.monotonic(), now
        if time.monotonic() - changed > still_seconds:
            raise Failure(
                f"Job {job.name} did not {what} within {still_seconds:.0f} s; it says: {said(world.job)}. Look at "
                f"`kubectl -n {job.namespace} describe dtj {job.name}`."
            )
        time.sleep(0.1)


def said(job: dict[str, Any]) -> str:
    return str(job.get("status", {}).get("message") or "nothing")


def judge(ending: Ending) -> None:
    """Failure, in one sentence, unless the job ended as it must."""
    if ending.steps != ending.expected_steps:
        raise Failure(f"The job ended after {ending.steps} steps and {ending.expected_steps} were asked for.")
    if ending.accuracy is None or ending.accuracy < GOOD_ACCURACY:
        raise Failure(f"Test accuracy is {ending.accuracy} and must be at least {GOOD_ACCURACY}.")


def picture(target: Path, watcher: Watcher, ending: Ending) -> None:
    with phase("loss curve"):
        loss_plot.draw(target, watcher.samples, ending.killed_at, ending.recovered, ending.accuracy)


def wait_until(true: Callable[[], bool], seconds: float, otherwise: str) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            raise Failure(f"{otherwise} within {seconds:.0f} s.")
        time.sleep(0.2)
