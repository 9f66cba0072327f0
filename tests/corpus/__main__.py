"""`make corpus`: compare real Keras programs, changed by one line, with what they train in plain Keras.

Each program runs plain in one process, and its other form as a job with each number of workers. Writes
build/results/corpus.json; the results of programs and jobs that were not run this time are kept.
"""

import argparse
import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from tests.corpus import jobs
from tests.corpus.catalogue import Program, programs

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / "build" / "corpus"
RESULT = ROOT / "build" / "results" / "corpus.json"
COUNTED = ("1", "2")
"""A program counts when these jobs train what Keras trains."""
Results = dict[str, dict[str, Any]]


def main() -> int:
    parser = argparse.ArgumentParser(prog="make corpus", description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", default=(), metavar="NAME", help="these programs or families")
    parser.add_argument(
        "--workers", nargs="*", type=int, default=(1, 2), metavar="N", help="numbers of workers (1 2); none: plain only"
    )
    parser.add_argument("--strategies", nargs="+", default=(), choices=jobs.STRATEGIES, help="also these")
    parser.add_argument("--kill", action="store_true", help="also kill each job once in its middle")
    parser.add_argument("--seconds", type=float, default=240, help="after which a job hangs (240)")
    options = parser.parse_args()
    try:
        chosen = programs(options.only)
    except ValueError as problem:
        parser.error(str(problem))
    kinds = [*map(jobs.workers, options.workers), *map(jobs.STRATEGIES.__getitem__, options.strategies)]
    runs = [(kind, kill) for kind in kinds for kill in ((False, True) if options.kill else (False,))]
    results = _kept(programs())
    console = Console(stderr=True)
    with _progress(console) as progress:
        bar = progress.add_task("corpus", total=len(chosen) * len(runs), doing="")
        for program in chosen:
            progress.update(bar, doing=f"{program.name}, plain")
            try:
                wanted = jobs.plain(program, WORK / "plain")
            except jobs.PlainFailedError as problem:
                console.print(f"[red]{problem}")
                results[program.name]["runs"] = {}
                progress.advance(bar, len(runs))
                continue
            for kind, kill in runs:
                name = f"{kind.name}{' killed' if kill else ''}"
                progress.update(bar, doing=f"{program.name}, {name}")
                folder = WORK / "jobs" / f"{program.name}-{name.replace(' ', '-')}"
                run = jobs.run_job(program, wanted, folder, kind, kill=kill, limit=options.seconds)
                console.print(f"{program.name}, {name}: {_in_colour(run.outcome)} {run.said}", highlight=False)
                results[program.name]["runs"][name] = asdict(run)
                progress.advance(bar)
            _write(results)
    _print(chosen, results)
    bad = [name for name, one in results.items() for run in one["runs"].values() if not _good(run)]
    return 1 if bad else 0


def _progress(console: Console) -> Progress:
    times = (TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn())
    return Progress(BarColumn(), MofNCompleteColumn(), *times, TextColumn("{task.fields[doing]}"), console=console)


def _kept(every: Iterable[Program]) -> Results:
    """Return the results of earlier calls, and empty ones of programs that were never run."""
    before = json.loads(RESULT.read_text())["programs"] if RESULT.exists() else {}
    return {
        program.name: {
            "family": program.family,
            "one_line": program.own_form is None,
            "runs": before.get(program.name, {}).get("runs", {}),
        }
        for program in every
    }


def _in_colour(outcome: str) -> str:
    return outcome if _good({"outcome": outcome}) else f"[red]{outcome}[/]"


def _good(run: Mapping[str, Any]) -> bool:
    return run["outcome"] in {"equal", "in its band"}


def counted(results: Results) -> dict[str, Any]:
    """Return the figures: how many programs train the same with one and two workers; which share by one line."""
    same = [one for one in results.values() if all(_good(one["runs"].get(kind, {"outcome": ""})) for kind in COUNTED)]
    by_one_line = [one for one in same if one["one_line"]]
    return {"corpus_programs": len(same), "corpus_one_line": round(len(by_one_line) / max(1, len(same)), 3)}


def _write(results: Results) -> None:
    RESULT.parent.mkdir(parents=True, exist_ok=True)
    date = f"{datetime.now(UTC):%Y-%m-%d %H:%M}"
    RESULT.write_text(json.dumps({"date": date, **counted(results), "programs": results}, indent=2) + "\n")


def _print(chosen: Iterable[Program], results: Results) -> None:
    table = Table("family", "program", "job", "result", "weights", "losses", "seconds", box=None)
    for program in chosen:
        for name, run in results[program.name]["runs"].items():
            found = run["deviation"]
            figures = (f"{found['weights']:.0e}", f"{found['losses']:.0e}") if found else ("", "")
            row = (program.family, program.name, name, _in_colour(run["outcome"]))
            table.add_row(*row, *figures, f"{run['seconds']:.0f}")
    console = Console()
    console.print(table)
    console.print(counted(results))


if __name__ == "__main__":
    sys.exit(main())
