"""`python -m tests.faults [--only in_process|real] [NAME…]`: run the plans, write build/results/faults.json.

Names select workloads by a part of their name. The exit code is 0 when every end state is as if undisturbed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from e2e.cluster.control_plane import start_control_plane
from tests.faults.fault_cluster import IN_PROCESS, on_real_cluster
from tests.faults.fault_plans import STRIDES, STRIDES_ON_REAL, run_all
from tests.faults.workloads import WORKLOADS
from tests.support.realserver import prepare

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.faults.fault_cluster import Backend
    from tests.faults.fault_plans import Result, Strides

RESULTS: Final = Path(__file__).parents[2] / "build" / "results" / "faults.json"
SERVERS: Final = ("in_process", "real")


def figures(results: Sequence[Result], seconds: float) -> dict[str, float]:
    """Count the results of one server."""
    return {
        "plans": len(results),
        "struck": sum(bool(result.hit) for result in results),
        "differing_end_states": sum(bool(result.differences) for result in results),
        "double_pods": sum(len(result.double_pods) for result in results),
        "lost_charges": sum(bool(result.lost_charges) for result in results),
        "others": sum(bool(result.others) for result in results),
        "seconds": round(seconds, 1),
    }


def document(told: Mapping[str, Mapping[str, float]]) -> dict[str, Any]:
    """Return the content of faults.json: the sums of both servers, and the figures of each."""
    together = ("plans", "differing_end_states", "double_pods", "lost_charges")
    return {name: sum(of_one[name] for of_one in told.values()) for name in together} | dict(told)


async def run(backend: Backend, strides: Strides, names: Sequence[str]) -> list[Result]:
    """Run the plans of the named workloads, or of all."""
    results: list[Result] = []
    for workload in WORKLOADS:
        if names and not any(name in workload.name for name in names):
            continue
        began = time.monotonic()
        found = await run_all(backend, workload, strides)
        wrong = [result for result in found if result.violations]
        seconds = time.monotonic() - began
        print(f"{backend.name}, {workload.name}: {len(found)} plans, {len(wrong)} wrong, {seconds:.1f} s", flush=True)
        for result in wrong:
            print(f"  {result}", flush=True)
        results += found
    return results


def main(arguments: Sequence[str]) -> int:
    """Run the command and return its exit code."""
    parser = argparse.ArgumentParser(description="Run the fault plans against one server or both.")
    parser.add_argument("--only", choices=SERVERS, help="the API server in this process, or a real one")
    parser.add_argument("names", nargs="*", metavar="NAME", help="a part of a workload's name")
    asked = parser.parse_args(arguments)
    logging.disable(logging.ERROR)
    told: dict[str, dict[str, float]] = {}
    violations = 0
    with ExitStack() as stack:
        for server in [asked.only] if asked.only else SERVERS:
            real = server == "real"
            backend = on_real_cluster(prepare(stack.enter_context(start_control_plane()))) if real else IN_PROCESS
            began = time.monotonic()
            results = asyncio.run(run(backend, STRIDES_ON_REAL if real else STRIDES, asked.names))
            told[server] = figures(results, time.monotonic() - began)
            violations += sum(bool(result.violations) for result in results)
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    said = document(told)
    RESULTS.write_text(json.dumps(said, indent=2) + "\n")
    print(json.dumps(said))
    return 0 if violations == 0 and all(told[server]["plans"] for server in told) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
