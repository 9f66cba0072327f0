"""`python -m tests.faults [NAME…]`: run the plans, tell what came of them, write build/results/faults.json.

Names select stories by a part of their name. The exit code is 0 when every end state is as if undisturbed.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.faults.plans import Disturbance, run_all
from tests.faults.workloads import WORKLOADS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.faults.plans import Result

RESULTS: Final = Path(__file__).parents[2] / "build" / "results" / "faults.json"


def figures(results: Sequence[Result], seconds: float) -> dict[str, float]:
    """The flat figures for machines: numbers of plans, seconds."""
    return {
        "plans": len(results),
        "plans_that_struck": sum(bool(result.struck) for result in results),
        "differing_end_states": sum(bool(result.differences) for result in results),
        "double_pods": sum(len(result.double_pods) for result in results),
        "lost_charges": sum(bool(result.lost_charges) for result in results),
        "other_complaints": sum(bool(result.others) for result in results),
        "seconds": round(seconds, 1),
    }


async def run(names: Sequence[str]) -> list[Result]:
    """All plans of the stories that are named, or of all."""
    results: list[Result] = []
    for workload in WORKLOADS:
        if names and not any(name in workload.name for name in names):
            continue
        began = time.monotonic()
        found = await run_all(workload, tuple(Disturbance))
        wrong = [result for result in found if result.complaints]
        print(f"{workload.name}: {len(found)} plans, {len(wrong)} wrong, {time.monotonic() - began:.1f} s", flush=True)
        for result in wrong:
            print(f"  {result}", flush=True)
        results += found
    return results


def main(names: Sequence[str]) -> int:
    """The exit code."""
    logging.disable(logging.ERROR)
    began = time.monotonic()
    results = asyncio.run(run(names))
    told = figures(results, time.monotonic() - began)
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps(told, indent=2) + "\n")
    print(json.dumps(told))
    return 0 if results and not any(result.complaints for result in results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
