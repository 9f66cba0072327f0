"""`python -m e2e.demo`: the whole product in one command."""

import argparse
import json
import os
import shutil
import sys
import time
from pathlib import Path

from rich.console import Console

from e2e.cluster import Cluster, ClusterError, binaries, parallel_build, providers
from e2e.cluster.api_client import ApiClient
from e2e.cluster.images import Images, named
from e2e.cluster.progress import console as progress_console
from e2e.demo import demo_steps
from e2e.demo.demo_steps import DemoResult
from e2e.demo.progress_view import view
from e2e.failure import Failure
from e2e.job_monitor import JobMonitor
from e2e.jobs import Variation

RESULTS = Path(os.environ.get("DTJ_RESULTS") or Path(__file__).resolve().parent.parent.parent / "build" / "results")
REPORT = RESULTS / "demo.json"
PICTURE = RESULTS / "demo-loss.png"
CLUSTER = "dtj"
CLEANUP_COMMAND = {
    "embedded": "make cluster-down",
    "kind": 'make cluster-down CLUSTER_ARGS="--provider kind"',
    "existing": "kubectl delete namespace -l " + ",".join("=".join(label) for label in demo_steps.LABELS.items()),
}
"""By provider, the command that removes what the demo left."""


def options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="make demo", description="A distributed training job on a real cluster; one worker is killed on the way."
    )
    after = parser.add_mutually_exclusive_group()
    after.add_argument("--keep", action="store_true", help="let the cluster run afterwards (the default)")
    after.add_argument("--remove", action="store_true", help="take the cluster down afterwards")
    parser.add_argument("--workers", type=int, default=2, metavar="N", help="workers, one a node (default 2)")
    parser.add_argument("--epochs", type=int, default=12, metavar="N", help="epochs of 100 steps (default 12)")
    parser.add_argument("--no-kill", action="store_true", help="let every worker live")
    parser.add_argument("--provider", choices=providers.PROVIDERS, default="embedded", help="which kind of cluster")
    for image in ("operator", "trainer"):
        parser.add_argument(
            f"--{image}-image",
            metavar="IMAGE",
            default=os.environ.get(f"DTJ_{image.upper()}_IMAGE"),
            help=f"with --provider existing: the {image}'s image, where its nodes can pull it",
        )
    chosen = parser.parse_args(arguments)
    if chosen.provider == "existing" and chosen.remove:
        parser.error("--remove: a cluster that ran before is not taken down")
    if chosen.workers not in {1, 2, 3, 4, 5, 6, 8}:
        parser.error(
            f"--workers {chosen.workers}: the example's batch of 120 splits over 1, 2, 3, 4, 5, 6 or 8 workers"
        )
    if chosen.epochs < 3:
        parser.error(f"--epochs {chosen.epochs}: fewer than 3 epochs do not reach the accuracy that the demo promises")
    return chosen


def main(arguments: list[str] | None = None) -> int:
    chosen = options(arguments)
    console = Console(highlight=False)
    demo = Demo(chosen, console)
    try:
        try:
            demo.run()
        finally:
            demo.close()
    except (Failure, ClusterError) as problem:
        progress_console.print(f"[red]The demo failed:[/red] {problem}", highlight=False, soft_wrap=True)
        return 1
    except KeyboardInterrupt:
        progress_console.print(f"Stopped. `{CLEANUP_COMMAND[chosen.provider]}` removes what is left.", soft_wrap=True)
        return 130
    return 0


class Demo:
    """One run of the demo, with its cluster and its times."""

    def __init__(self, chosen: argparse.Namespace, console: Console) -> None:
        self._chosen = chosen
        self._console = console
        self._began = time.monotonic()
        self._cluster: Cluster | None = None
        self._cluster_seconds: float | None = None
        self._result = DemoResult("NotStarted")

    def run(self) -> None:
        chosen = self._chosen
        self._report()
        PICTURE.unlink(missing_ok=True)
        providers.require(chosen.provider)
        images = self._images()
        bringing_up = time.monotonic()
        nodes = max(2, chosen.workers)
        cluster = self._cluster = providers.up(chosen.provider, CLUSTER, nodes=nodes, images=images.archives)
        self._cluster_seconds = time.monotonic() - bringing_up
        api = ApiClient(cluster.kubeconfig)
        prepare = demo_steps.prepare_existing_cluster if chosen.provider == "existing" else demo_steps.prepare
        prepare(cluster, api, images.operator)
        variation = Variation(images.trainer, workers=chosen.workers, epochs=chosen.epochs)
        job = demo_steps.start(api, variation)
        self._result = DemoResult("Pending", expected_steps=variation.expected_steps)
        with JobMonitor(api, demo_steps.NAMESPACE, job.name) as monitor:
            with view(self._console, monitor, variation.expected_steps) as shown:
                self._result = demo_steps.follow_job(cluster, job, monitor, shown, variation, kill=not chosen.no_kill)
            demo_steps.plot_loss(PICTURE, monitor, self._result)
        demo_steps.check_result(self._result)
        self._console.print(self._closing(cluster), markup=False, soft_wrap=True)

    def _images(self) -> Images:
        chosen = self._chosen
        if chosen.provider == "existing":
            images = named(chosen.operator_image, chosen.trainer_image)
            binaries.ensure(*providers.programs(chosen.provider), "helm")
            return images
        return parallel_build.build_images_beside(*providers.programs(chosen.provider), "helm")

    def close(self) -> None:
        """Write the figures so far; take the cluster down where that was asked for."""
        if self._chosen.remove and self._cluster is not None:
            self._cluster.down()
        self._report()

    def _report(self) -> None:
        """Write the figures; raises Failure where they cannot be written, which the demo checks before it begins."""
        back = self._result.recovered
        figures = {
            "phase": self._result.phase,
            "accuracy": self._result.accuracy,
            "recovery_seconds": None if back is None else round(back.all_train, 3),
            "steps": self._result.steps,
            "expected_steps": self._result.expected_steps,
            "cluster_seconds": None if self._cluster_seconds is None else round(self._cluster_seconds, 1),
            "total_seconds": round(time.monotonic() - self._began, 1),
        }
        try:
            RESULTS.mkdir(parents=True, exist_ok=True)
            REPORT.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
        except OSError as error:
            raise Failure(
                f"{RESULTS} cannot be written ({error.strerror}): set DTJ_RESULTS to a directory that you may write."
            ) from None

    def _closing(self, cluster: Cluster) -> str:
        result = self._result
        assert result.accuracy is not None
        lines = [
            f"\n  Succeeded: {result.steps} of {result.expected_steps} steps, test accuracy {result.accuracy:.3f}",
            f"  {time.monotonic() - self._began:.0f} s in all; loss curve {PICTURE}, figures {REPORT}",
        ]
        if not self._chosen.remove:
            lines += [
                "\n  Look around:",
                *([] if shutil.which("kubectl") else [f"    export PATH=$PATH:{binaries.path('kubectl').parent}"]),
                f"    export KUBECONFIG={cluster.kubeconfig}",
                f"    kubectl -n {demo_steps.NAMESPACE} get dtj -o wide",
                f"    kubectl -n {demo_steps.NAMESPACE} describe dtj digits",
                f"    kubectl -n {demo_steps.NAMESPACE} logs digits-worker-0",
                f"    {CLEANUP_COMMAND[self._chosen.provider]}",
            ]
        return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
