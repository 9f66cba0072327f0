"""`make corpus`: compare real Keras programs, changed by one line, with what they train in plain Keras.

Each program runs plain in one process, and its other form as a job with each number of workers. A program that states a
band also runs on two workers without what that is for, and has to be equal then. Writes
build/results/corpus.json after each job; the results of programs and jobs that were not run this time are kept.
"""

import argparse
import sys
from collections.abc import Iterable

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from tests.corpus import jobs
from tests.corpus.catalogue import Program, programs
from tests.corpus.results import CONTROL, GOOD, KEPT, ROOT, Results, counted, good

WORK = ROOT / "build" / "corpus"


def main() -> int:
    """Run the command line; returns 1 when a program that was run does not train what Keras trains."""
    options = _arguments()
    kinds = [*map(jobs.workers, options.workers), *map(jobs.STRATEGIES.__getitem__, options.strategies)]
    runs = [(kind, kill) for kind in kinds for kill in ((False, True) if options.kill else (False,))]
    results = Results(programs())
    console = Console(stderr=True)
    with _progress(console) as progress:
        bar = progress.add_task("corpus", total=len(options.programs) * len(runs), doing="")
        for program in options.programs:
            for kind, kill in runs:
                name = f"{kind.name}{' killed' if kill else ''}"
                progress.update(bar, doing=f"{program.name}, {name}")
                if not (options.resume and results.has(program, name)):
                    run = _run(program, name, kind, kill=kill, limit=options.seconds)
                    console.print(f"{program.name}, {name}: {_in_colour(run.outcome)} {run.said}", highlight=False)
                    results.add(program, name, run)
                progress.advance(bar)
            if program.control and not (options.resume and results.has(program, CONTROL)):
                progress.update(bar, doing=f"{program.name}, {CONTROL}")
                run = _run(program.without_reason(WORK / CONTROL), CONTROL, jobs.workers(2), limit=options.seconds)
                console.print(f"{program.name}, {CONTROL}: {_in_colour(run.outcome)} {run.said}", highlight=False)
                results.add(program, CONTROL, run)
    results.write()
    if options.keep:
        results.keep()
    _print(options.programs, results)
    ran = [results.programs[program.name]["runs"] for program in options.programs]
    return 0 if all(good(run) for each in ran for run in each.values()) else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make corpus", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", default=(), metavar="NAME", help="these programs or families")
    parser.add_argument(
        "--workers",
        nargs="*",
        type=int,
        default=(1, 2),
        metavar="N",
        help="numbers of workers (1 2); none: only strategies",
    )
    parser.add_argument("--strategies", nargs="+", default=(), choices=jobs.STRATEGIES, help="also these")
    parser.add_argument("--kill", action="store_true", help="also kill each job once in its middle")
    parser.add_argument("--seconds", type=float, default=240, help="after which a job hangs (240)")
    parser.add_argument("--resume", action="store_true", help="leave out the jobs that this commit has run already")
    parser.add_argument(
        "--keep", action="store_true", help=f"also keep all results in {KEPT.parent.name}/, for the docs"
    )
    options = parser.parse_args()
    try:
        options.programs = programs(options.only)
    except ValueError as problem:
        parser.error(str(problem))
    return options


def _run(program: Program, name: str, kind: jobs.Kind, *, limit: float, kill: bool = False) -> jobs.Run:
    """Run the plain program, unless that is kept, and the job."""
    try:
        wanted = jobs.plain(program, WORK / "plain")
    except jobs.PlainFailedError as problem:
        return jobs.Run("failed", 0.0, said=f"plain Keras, {problem}")
    folder = WORK / "jobs" / f"{program.name}-{name.replace(' ', '-')}"
    return jobs.run_job(program, wanted, folder, kind, kill=kill, limit=limit)


def _progress(console: Console) -> Progress:
    times = (TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn())
    return Progress(BarColumn(), MofNCompleteColumn(), *times, TextColumn("{task.fields[doing]}"), console=console)


def _in_colour(outcome: str) -> str:
    return outcome if outcome in GOOD else f"[red]{outcome}[/]"


def _print(chosen: Iterable[Program], results: Results) -> None:
    table = Table("family", "program", "job", "result", "weights", "losses", "seconds", box=None)
    for program in chosen:
        for name, run in results.programs[program.name]["runs"].items():
            found = run["deviation"]
            figures = (f"{found['weights']:.0e}", f"{found['losses']:.0e}") if found else ("", "")
            row = (program.family, program.name, name, _in_colour(run["outcome"]))
            table.add_row(*row, *figures, f"{run['seconds']:.0f}")
    console = Console()
    console.print(table)
    console.print(counted(results.programs))


if __name__ == "__main__":
    sys.exit(main())
