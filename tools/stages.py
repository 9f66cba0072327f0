"""Runs the stages of `make lint`, `make check`, `make e2e` and `make test` in order, then prints times and counts.

A stage that fails does not stop the stages after it. Each pytest stage writes build/results/junit-<stage>.xml, from
which the counts are read. A pytest stage that runs no test has failed. The failed tests are named at the very end, so
that they survive when the output is cut.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

from tools.environment import cache

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "build" / "results"
QUICK = "not contract and not trainer and not e2e and (not faults or sample)"


@dataclass(frozen=True, slots=True)
class Stage:
    """One command; `tests` tells whether it is pytest and reports counts."""

    name: str
    command: tuple[str, ...]
    tests: bool = False


@dataclass(frozen=True, slots=True)
class Counts:
    """The test cases of a pytest run by result."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.passed + other.passed, self.failed + other.failed, self.skipped + other.skipped)

    def __str__(self) -> str:
        line = f"{self.passed} passed, {self.failed} failed"
        return f"{line}, {self.skipped} skipped" if self.skipped else line


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one stage; `seconds` of wall time."""

    stage: Stage
    ok: bool
    seconds: float
    counts: Counts | None = None
    failures: tuple[str, ...] = ()


def module(name: str, *arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-m", name, *arguments)


def pytest(name: str, *arguments: str, provider: str = "") -> Stage:
    """Return a stage of tests; `provider` is that of the scenarios' cluster."""
    chosen = ("env", f"DTJ_E2E_PROVIDER={provider}") if provider else ()
    report = f"--junitxml={RESULTS / f'junit-{name}.xml'}"
    return Stage(name, (*chosen, *module("pytest", report, *arguments)), tests=True)


ONE_MORE = ("-n", str(len(os.sched_getaffinity(0)) + 1))
"""One process more than there are processors: a test of the operator waits for a third of its time."""
GROUPED = ("-p", "tools.groups")
"""Distributes tests one by one, so that no process has many long ones left at the end."""
LINT = (
    Stage("lint", module("ruff", "check", ".")),
    Stage("format", module("ruff", "format", "--check", ".")),
    Stage("types", module("mypy")),
    Stage("layers", (str(Path(sys.executable).with_name("lint-imports")),)),
)
CHECK = (*LINT, pytest("quick", "-q", *ONE_MORE, "--durations=5", "-m", QUICK))
THREE = ("-v", *GROUPED, "-n", "3")
"""Three processes: of the trainer's tests two that start several processes each, and one that mostly waits; of the
scenarios one that trains and two that mostly wait, one of which trains later."""
BUILD = Stage("build", module("e2e.cluster", "build", "--images"))
"""Builds what is not in the cache yet, before tests with a timeout need it."""
SCENARIOS = pytest("e2e", *THREE, "-m", "e2e")
E2E = (BUILD, SCENARIOS)
TEST = (
    *CHECK,
    BUILD,
    pytest("operator", "-q", *GROUPED, *ONE_MORE, "--durations=5", "-m", "contract or (faults and not sample)"),
    pytest("trainer", *THREE, "-m", "trainer"),
    SCENARIOS,
)
E2E_KIND = (
    Stage("build", module("e2e.cluster", "--provider", "kind", "build", "--images")),
    pytest(
        "e2e-kind",
        *THREE,
        "-m",
        "e2e",
        "--ignore=e2e/scenarios/test_first_minutes.py",
        "e2e/scenarios",
        provider="kind",
    ),
)
"""The scenarios on a kind cluster, without those that are about the embedded cluster's own start."""
PLANS = {"lint": LINT, "check": CHECK, "e2e": E2E, "e2e-kind": E2E_KIND, "test": TEST}


def counts(report: Path) -> Counts | None:
    """Return the counts of a JUnit report; None when pytest did not write one."""
    if not report.exists():
        return None
    total = Counts()
    for suite in ET.parse(report).getroot().iter("testsuite"):  # noqa: S314 - written by our own pytest
        failed = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
        skipped = int(suite.get("skipped", 0))
        total += Counts(int(suite.get("tests", 0)) - failed - skipped, failed, skipped)
    return total


def failures(report: Path) -> tuple[str, ...]:
    """Return a line for each test that failed: its name and the first line of its message."""
    lines = []
    for case in ET.parse(report).getroot().iter("testcase"):  # noqa: S314 - written by our own pytest
        for said in (*case.iterfind("failure"), *case.iterfind("error")):
            words = (said.get("message") or said.text or "").strip().partition("\n")[0]
            lines.append(f"{case.get('classname')}::{case.get('name')} ({float(case.get('time', 0)):.0f} s): {words}")
    return tuple(lines)


def run(stage: Stage) -> Outcome:
    print(f"\n── {stage.name} " + "─" * max(0, 96 - len(stage.name)), flush=True)
    report = RESULTS / f"junit-{stage.name}.xml"
    report.unlink(missing_ok=True)
    began = time.monotonic()
    code = subprocess.run(stage.command, check=False, cwd=ROOT, env=environment()).returncode
    seconds = time.monotonic() - began
    if not stage.tests:
        return Outcome(stage, code == 0, seconds)
    done = counts(report)
    ran = done is not None and done.passed + done.failed > 0
    return Outcome(stage, code == 0 and ran, seconds, done, failures(report) if done and done.failed else ())


def environment() -> dict[str, str]:
    """Return the caller's environment, with the source roots on the path, and mypy's cache beside ours.

    Bytecode is kept even where the caller disables it: otherwise each of a thousand processes compiles all it imports.
    """
    roots = os.pathsep.join(str(ROOT / name) for name in ("operator", "trainer-image", "client", ""))
    return os.environ | {
        "MYPY_CACHE_DIR": str(cache() / "mypy"),
        "PYTHONDONTWRITEBYTECODE": "",
        "PYTHONPATH": roots,
        "TF_CPP_MIN_LOG_LEVEL": os.environ.get("TF_CPP_MIN_LOG_LEVEL", "2"),
    }


def table(outcomes: Iterable[Outcome]) -> str:
    rows = [f"{'stage':<10} {'result':<8} {'seconds':>8}  tests"]
    for outcome in outcomes:
        result = "ok" if outcome.ok else "FAILED"
        rows.append(f"{outcome.stage.name:<10} {result:<8} {outcome.seconds:>8.1f}  {outcome.counts or ''}".rstrip())
    return "\n".join(rows)


def run_plan(stages: Iterable[Stage], perform: Callable[[Stage], Outcome] = run) -> int:
    """Run all stages; returns 0 when all succeed, else 1. The last line printed is `N passed, N failed` over all."""
    try:
        RESULTS.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=RESULTS):
            pass
    except OSError as problem:
        said = f"{RESULTS} cannot be written ({problem.strerror}): run this in a checkout that you may write."
        print(said, file=sys.stderr)
        return 1
    began = time.monotonic()
    outcomes = [perform(stage) for stage in stages]
    total = sum((outcome.counts for outcome in outcomes if outcome.counts), Counts())
    failed = "".join(f"FAILED {line}\n" for outcome in outcomes for line in outcome.failures)
    print(f"\n{table(outcomes)}\n{'all':<19} {time.monotonic() - began:>8.1f}\n\n{failed}{total}", flush=True)
    return 0 if all(outcome.ok for outcome in outcomes) else 1


def main() -> int:
    parser = argparse.ArgumentParser(description="Run the stages of a plan in sequence.")
    parser.add_argument("plan", choices=sorted(PLANS))
    try:
        return run_plan(PLANS[parser.parse_args().plan])
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
