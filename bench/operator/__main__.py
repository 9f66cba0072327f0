"""`make bench-operator`: measure the operator, print the figures, write build/results/bench-operator.json."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.machine import machine
from bench.operator import big_job, chart, creation, hostile, hour, lifecycle, load, meter, record, subject
from bench.operator.fleet import fleet, log
from bench.operator.kubelets import kubelets
from bench.operator.record import Figures
from e2e.cluster import binaries
from e2e.cluster.control_plane import start_control_plane

NODES = 4
LIFECYCLES = 30
AS_SHIPPED: dict[str, str] = {}
"""The API server's garbage collector runs with Go's defaults."""


def main() -> None:
    """Run the command line."""
    options = _options()
    figures = Figures(record.last() if options.add else {})
    figures.add({"jobs": options.jobs, "pods": options.jobs * load.WORKERS, "date": datetime.now(UTC).isoformat()})
    figures.add(machine() | {"kubernetes": binaries.KUBERNETES})
    try:
        asyncio.run(_measure(options, figures))
    except asyncio.CancelledError:
        log("ended by SIGTERM")
    except TimeoutError:
        log(f"{options.minutes:g} minutes are over: give it more (--minutes), or fewer --jobs, --rounds, --churn")
    finally:
        log(f"wrote {record.RESULT}")
        if options.keep:
            kept = record.keep(figures.found)
            log(f"kept {kept} and {chart.draw(kept)}")
        for name, value in figures.found.items():
            print(f"{name:32} {value}")


async def _measure(options: argparse.Namespace, figures: Figures) -> None:
    """Run one stage after the other until the time is up; SIGTERM ends the run as well."""
    this = asyncio.current_task()
    assert this
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, this.cancel)
    async with asyncio.timeout(60 * options.minutes):
        for stage in options.stages:
            with figures.stage(stage):
                figures.add({f"{stage}_load": round(os.getloadavg()[0], 1)})
                stolen = meter.stolen_percent()
                await STAGES[stage](options, figures)
                figures.add({f"{stage}_stolen_percent": round(stolen(), 1)})


async def _run_creation(options: argparse.Namespace, figures: Figures) -> None:
    with start_control_plane(environment=AS_SHIPPED) as running:
        async with fleet(running) as jobs:
            log(f"creating the pods of {options.jobs} jobs, {options.rounds} rounds of bare client and operator")
            async for found in creation.pairs(jobs, options.jobs, options.rounds, options.source):
                figures.add(_creation_figures(found, options))
                log(f"the operator reaches {found.ratio:.3f} of the bare client's rate, {found.cost_ratio:.3f} by cost")


def _creation_figures(found: creation.Comparison, options: argparse.Namespace) -> dict[str, Any]:
    bare, ours = (side[len(side) // 2] for side in (_by_rate(found.bare), _by_rate(found.operator)))
    both = found.bare + found.operator
    return {
        "bare_pods_per_second": round(bare.pods_per_second, 1),
        "operator_pods_per_second": round(ours.pods_per_second, 1),
        "create_ratio": round(found.ratio, 3),
        "create_ratio_of_each_round": [
            round(o.pods_per_second / b.pods_per_second, 3) for b, o in zip(found.bare, found.operator, strict=True)
        ],
        "cost_ratio": round(found.cost_ratio, 3),
        "bare_cpu_ms_per_pod": _ms(bare.client_seconds, options),
        "operator_cpu_ms_per_pod": _ms(ours.client_seconds, options),
        "server_cpu_ms_per_pod_bare": _ms(bare.server_seconds, options),
        "server_cpu_ms_per_pod_operator": _ms(ours.server_seconds, options),
        "others_cores": round(sum(one.others for one in both) / len(both), 2),
        "requests_per_job": round(max(r.requests_per_job for r in found.operator), 2),
    }


async def _run_standing(options: argparse.Namespace, figures: Figures) -> None:
    with start_control_plane(environment=AS_SHIPPED) as running:
        async with fleet(running) as jobs, kubelets(jobs):
            with subject.operator(running, source=options.source) as operator:
                operator.wait_ready()
                log(f"starting {options.jobs} jobs")
                figures.add({"all_running_seconds": round(await lifecycle.start_jobs(jobs, options.jobs), 1)})
                log(f"idle for {options.idle:.0f} s")
                rest = await lifecycle.idle(jobs, operator, options.idle)
                figures.add({"idle_seconds": options.idle, "idle_writes": rest.writes})
                figures.add({"idle_cpu_percent": round(rest.cpu_percent, 2), "idle_requests": dict(rest.requests)})
                figures.add(_memory(operator, []))
                log(f"{options.samples} replacements, one at a time")
                figures.add(
                    _replacement_figures(
                        await lifecycle.replacements(jobs, load.names(options.jobs), options.samples), options.samples
                    )
                )
                turns: list[float] = []
                for turn in range(options.churn):
                    log(f"memory: every job fails once ({turn + 1} of {options.churn})")
                    await lifecycle.churn(jobs, options.jobs)
                    turns.append(round(operator.rss_mb(), 1))
                    figures.add(_memory(operator, turns))
                figures.add({"warnings": len(operator.warnings())})
                for line in operator.warnings()[:5]:
                    log(line)
            log("starting again, with a job that is new to the operator")
            figures.add(
                {"start_first_decision_seconds": round(await lifecycle.starts(jobs, options.source, options.starts), 2)}
            )


def _memory(operator: subject.OperatorProcess, turns: list[float]) -> dict[str, Any]:
    peak = {"memory": turns, "rss_mb_peak": round(operator.peak_rss_mb(), 1)}
    return peak if turns else {"rss_mb": round(operator.rss_mb(), 1)} | peak


async def _run_lifecycles(options: argparse.Namespace, figures: Figures) -> None:
    log(f"{LIFECYCLES} jobs from creation to success on kwok's nodes")
    with start_control_plane(fake_nodes=NODES, environment=AS_SHIPPED) as running:
        async with fleet(running) as jobs:
            with subject.operator(running, source=options.source) as operator:
                operator.wait_ready()
                whole = await lifecycle.full_lifecycles(jobs, LIFECYCLES)
    figures.add({"requests_per_life": round(whole.requests_per_job, 2), "requests_of_lives": dict(whole.requests)})


def _replacement_figures(groups: list[lifecycle.Replacements], samples: int) -> dict[str, Any]:
    kept = lifecycle.least_disturbed(groups, samples)
    figures: dict[str, Any] = {"replacement_samples": lifecycle.GROUP * len(kept)}
    for side, seconds in (
        ("", [second for one in kept for second in one.operator]),
        ("floor_", [second for one in kept for second in one.floor]),
        ("all_", [second for one in groups for second in one.operator]),
    ):
        for share in (50, 95):
            figures[f"replacement_{side}p{share}_seconds"] = round(lifecycle.percentile(seconds, share / 100), 4)
    ratio = figures["replacement_p95_seconds"] / figures["replacement_floor_p95_seconds"]
    return figures | {
        "replacement_ratio": round(ratio, 2),
        "replacement_stolen_percent": round(max(one.stolen_percent for one in kept), 1),
        "replacement_discarded": lifecycle.GROUP * (len(groups) - len(kept)),
    }


async def _run_hour(options: argparse.Namespace, figures: Figures) -> None:
    log(f"an hour with {options.hour_jobs} jobs, in {hour.MINUTES * hour.MINUTE / 60:.0f} minutes")
    found = await hour.memory(options.hour_jobs)
    growth = round(hour.growth(found), 1)
    figures.add({"hour_jobs": options.hour_jobs, "hour_rss_mb": found, "hour_growth_mb": growth})


async def _run_big_job(options: argparse.Namespace, figures: Figures) -> None:
    workers: int = options.big_pods
    figures.add({"big_job_pods": workers, "big_job_pass_cpu_ratio": round(big_job.pass_cpu_ratio(workers), 2)})
    with start_control_plane(environment=AS_SHIPPED) as running:
        async with fleet(running) as jobs:
            ratio = await big_job.create_ratio(jobs, workers, options.rounds, options.source)
            figures.add({"big_job_create_ratio": round(ratio, 3)})
    with start_control_plane(environment=AS_SHIPPED) as running:
        async with fleet(running) as jobs:
            log(f"one job of {workers} runs, fails and restarts")
            found = await big_job.live(jobs, workers, options.big_samples, options.source)
    kept = lifecycle.least_disturbed(found.replacements, options.big_samples)
    ours = lifecycle.percentile([second for one in kept for second in one.operator], 0.5)
    floor = lifecycle.percentile([second for one in kept for second in one.floor], 0.5)
    figures.add(
        {
            "big_job_replacement_ratio": round(ours / floor, 2),
            "big_job_running_seconds": round(found.running_seconds, 1),
            "big_job_restart_seconds": round(found.restart_seconds, 1),
            "big_job_rss_mb": round(found.rss_mb, 1),
        }
    )


async def _run_hostile(options: argparse.Namespace, figures: Figures) -> None:
    with start_control_plane(environment=AS_SHIPPED) as running:
        async with fleet(running) as jobs:
            found = await hostile.endure(jobs, options.hostile, options.source)
    figures.add(
        {
            "hostile_manifests": found.manifests,
            "hostile_delay_seconds": round(found.delay_seconds, 2),
            "hostile_rss_mb": round(found.rss_mb, 1),
        }
    )


STAGES = {
    "create": _run_creation,
    "standing": _run_standing,
    "lives": _run_lifecycles,
    "hour": _run_hour,
    "big": _run_big_job,
    "hostile": _run_hostile,
}


def _by_rate(rounds: tuple[creation.Round, ...]) -> list[creation.Round]:
    return sorted(rounds, key=lambda one: one.pods_per_second)


def _ms(seconds: float, options: argparse.Namespace) -> float:
    pods: int = options.jobs * load.WORKERS
    return round(1000 * seconds / pods, 3)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.operator", description=__doc__)
    parser.add_argument("--jobs", type=int, default=1000, help="jobs of five workers each (default: 1000)")
    parser.add_argument("--rounds", type=int, default=3, help="pairs of creation runs (default: 3)")
    parser.add_argument("--idle", type=float, default=60.0, help="seconds of idling (default: 60)")
    parser.add_argument("--samples", type=int, default=200, help="replacements that are timed (default: 200)")
    parser.add_argument("--churn", type=int, default=6, help="failures of each job, for the memory (default: 6)")
    parser.add_argument("--starts", type=int, default=3, help="starts with all pods present (default: 3)")
    parser.add_argument("--hour-jobs", type=int, default=60, help="jobs of the simulated hour (default: 60)")
    parser.add_argument("--big-pods", type=int, default=1000, help="workers of the one large job (default: 1000)")
    parser.add_argument("--big-samples", type=int, default=20, help="failures of it that are timed (default: 20)")
    parser.add_argument("--hostile", type=int, default=2000, help="fuzzed jobs (default: 2000)")
    parser.add_argument("--minutes", type=float, default=60.0, help="most that it may take (default: 60)")
    parser.add_argument("--stages", nargs="+", choices=STAGES, default=tuple(STAGES))
    parser.add_argument("--add", action="store_true", help="add these stages to the figures of the last run")
    parser.add_argument(
        "--source",
        type=lambda word: Path(word).resolve(),
        default=subject.SOURCE,
        help="source root of the operator to measure",
    )
    parser.add_argument("--keep", action="store_true", help="also keep the figures in bench/results/")
    return parser.parse_args()


if __name__ == "__main__":
    main()
