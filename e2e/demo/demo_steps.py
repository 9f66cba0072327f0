"""The steps of the demo, from the cluster to the loss curve."""

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from e2e import chart
from e2e.cluster import Cluster
from e2e.cluster.api_client import ApiClient, core_path, jobs_path
from e2e.cluster.progress import phase, print_line
from e2e.demo import loss_plot
from e2e.demo.progress_view import ProgressView
from e2e.failure import Failure
from e2e.job_monitor import FAST_POLL_SECONDS, POLL_SECONDS, JobMonitor
from e2e.jobs import Job, Variation, manifest, vary
from e2e.kill import kill_training
from e2e.recovery import Recovery, recovery

NAMESPACE = "demo"
JOB = "digits"
CLAIM = "checkpoints"
LABELS = {"app.kubernetes.io/managed-by": "dtj-demo"}
"""The label of all that the demo creates in a cluster, except the operator."""
START_SECONDS = 120
STILL_SECONDS = 120
"""The demo fails when the job reports nothing new for so long."""
RECOVERY_SECONDS = 60
KILL_AT = 0.4
"""Which share of the steps is done when a worker is killed."""
GOOD_ACCURACY = 0.95


@dataclass(frozen=True)
class DemoResult:
    """The outcome of the demo; None where it did not get so far."""

    phase: str
    accuracy: float | None = None
    steps: int | None = None
    expected_steps: int | None = None
    killed_at: float | None = None
    recovered: Recovery | None = None


def prepare(cluster: Cluster, api: ApiClient, operator: str) -> None:
    """Install the operator from the image `operator`, and create an empty claim for the checkpoints."""
    with phase("operator, by helm"):
        chart.install(cluster, operator)
    with phase("shared volume for the checkpoints"):
        reset_namespace(cluster, api)


def prepare_existing_cluster(cluster: Cluster, api: ApiClient, operator: str) -> None:
    """Prepare a cluster that was not started here: an operator that is installed already is used as it is.

    Raises Failure, before anything is changed, where an object of the demo's names was not created by a demo.
    """
    check_ownership(api)
    release = chart.installed(cluster)
    if release is None:
        prepare(cluster, api, operator)
        return
    check_release(release)
    print_line(
        f"The operator of release {chart.RELEASE} in namespace {chart.NAMESPACE} is used as it is, not {operator}."
    )
    with phase("shared volume for the checkpoints"):
        reset_namespace(cluster, api)


def check_ownership(api: ApiClient) -> None:
    """Raise Failure where an object that the demo would delete was not created by a demo."""
    for what, path in (
        (f"namespace {NAMESPACE}", f"/api/v1/namespaces/{NAMESPACE}"),
        (f"claim {CLAIM} in namespace {NAMESPACE}", core_path(NAMESPACE, "persistentvolumeclaims", CLAIM)),
        (f"job {JOB} in namespace {NAMESPACE}", jobs_path(NAMESPACE, JOB)),
    ):
        found = api.find(path)
        if found is not None and not LABELS.items() <= found["metadata"].get("labels", {}).items():
            raise Failure(
                f"The {what} was not made by a demo, which deletes what it finds under this name: delete it first "
                "if nobody needs it, or choose another cluster."
            )


def check_release(release: dict[str, Any]) -> None:
    """Raise Failure where the installed operator does not watch the demo's namespace."""
    which = f"Release {chart.RELEASE} in namespace {chart.NAMESPACE}"
    if (status := release["info"]["status"]) != "deployed":
        raise Failure(
            f"{which} is {status}, not deployed: repair it, or uninstall it with "
            f"`helm uninstall {chart.RELEASE} -n {chart.NAMESPACE}`, and run the demo again."
        )
    watched = (release.get("config") or {}).get("watchNamespaces") or [NAMESPACE]
    if NAMESPACE not in watched:
        raise Failure(f"{which} works in {', '.join(watched)} alone, not in {NAMESPACE}: choose another cluster.")


def reset_namespace(cluster: Cluster, api: ApiClient) -> None:
    """Delete what an earlier demo left in the namespace, and create an empty claim."""
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": LABELS}}
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
    api.patch(claim, {"metadata": {"labels": LABELS}})


def start(api: ApiClient, variation: Variation) -> Job:
    job = vary(manifest(), variation)
    job["metadata"]["labels"] = LABELS
    return Job.create(api, NAMESPACE, job)


def follow_job(
    cluster: Cluster, job: Job, monitor: JobMonitor, view: ProgressView, variation: Variation, *, kill: bool
) -> DemoResult:
    """Watch the job until it ends; meanwhile kill one worker's training process and time the recovery."""
    result = DemoResult("Unknown", expected_steps=variation.expected_steps)
    watch_until(view, monitor, job, lambda: lowest_step(monitor, variation.workers) > 0, START_SECONDS, "train")
    if kill:
        threshold = int(KILL_AT * variation.expected_steps)
        watch_until(
            view, monitor, job, lambda: lowest_step(monitor, variation.workers) >= threshold, STILL_SECONDS, "go on"
        )
        result = kill_worker(cluster, monitor, view, variation, result)
    watch_until(view, monitor, job, lambda: monitor.state.condition("Succeeded") is not None, STILL_SECONDS, "succeed")
    status = job.status()
    final = status.get("progress", {})
    return replace(
        result, phase=status["phase"], steps=final.get("step"), accuracy=final.get("metrics", {}).get("val_accuracy")
    )


def kill_worker(
    cluster: Cluster, monitor: JobMonitor, view: ProgressView, variation: Variation, result: DemoResult
) -> DemoResult:
    """Kill the last worker's training process with SIGKILL, and wait until every worker has made a new step."""
    pods = monitor.refresh().pods
    victim = pods[-1]
    monitor.poll_seconds = FAST_POLL_SECONDS
    time.sleep(3 * POLL_SECONDS)  # the monitor polls a few times at the faster rate before the kill
    killed_at, pid = kill_training(cluster, victim)
    name, node = victim["metadata"]["name"], victim["spec"]["nodeName"]
    view.tell(f"kill -9 {pid}: the training process of {name} on {node} is gone")
    names = [pod["metadata"]["name"] for pod in pods]
    deadline = time.monotonic() + RECOVERY_SECONDS
    while (back := recovery(monitor.samples, killed_at, names)) is None:
        if time.monotonic() > deadline:
            raise Failure(
                f"The workers did not all train again within {RECOVERY_SECONDS} s after {name} was killed: look at "
                f"`kubectl -n {NAMESPACE} logs {name}`."
            )
        view.show()
        time.sleep(FAST_POLL_SECONDS)
    monitor.poll_seconds = POLL_SECONDS
    each = ", ".join(f"{pod} {seconds:.2f} s" for pod, seconds in back.seconds.items())
    view.tell(f"all {variation.workers} workers train again after {back.all_train:.2f} s ({each})")
    view.tell(f"{back.lost_steps} steps since the last checkpoint are trained again")
    return replace(result, killed_at=killed_at, recovered=back)


def lowest_step(monitor: JobMonitor, workers: int) -> int:
    """Return the step that all workers have reached; 0 until each of them has reported one."""
    pods = monitor.state.pods
    latest = [monitor.latest(pod["metadata"]["name"]) for pod in pods]
    steps = [sample.step for sample in latest if sample is not None and sample.step is not None]
    return min(steps) if len(steps) == workers else 0


def watch_until(
    view: ProgressView, monitor: JobMonitor, job: Job, done: Callable[[], bool], still_seconds: float, what: str
) -> None:
    """Show the job until `done`; Failure when it fails, or when nothing new is reported for `still_seconds`."""
    changed, last = time.monotonic(), None
    while not done():
        view.show()
        state = monitor.state
        failed = state.condition("Failed")
        if failed is not None:
            raise Failure(f"Job {job.name} failed ({failed.get('reason')}): {failed.get('message')}")
        now = monitor.samples[-1].updated if monitor.samples else state.phase
        if now != last:
            changed, last = time.monotonic(), now
        if time.monotonic() - changed > still_seconds:
            raise Failure(
                f"Job {job.name} did not {what} within {still_seconds:.0f} s; it says: {said(state.job)}. Look at "
                f"`kubectl -n {job.namespace} describe dtj {job.name}`."
            )
        time.sleep(0.1)


def said(job: dict[str, Any]) -> str:
    return str(job.get("status", {}).get("message") or "nothing")


def check_result(result: DemoResult) -> None:
    """Raise Failure, in one sentence, unless the job succeeded with a good accuracy."""
    if result.steps != result.expected_steps:
        raise Failure(f"The job ended after {result.steps} steps and {result.expected_steps} were asked for.")
    if result.accuracy is None or result.accuracy < GOOD_ACCURACY:
        raise Failure(f"Test accuracy is {result.accuracy} and must be at least {GOOD_ACCURACY}.")


def plot_loss(target: Path, monitor: JobMonitor, result: DemoResult) -> None:
    with phase("loss curve"):
        loss_plot.draw(target, monitor.samples, result.killed_at, result.recovered, result.accuracy)


def wait_until(true: Callable[[], bool], seconds: float, otherwise: str) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            raise Failure(f"{otherwise} within {seconds:.0f} s.")
        time.sleep(0.2)
