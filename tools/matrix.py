"""Runs the trainer's quick tests with the oldest and the newest Keras that pyproject.toml allows, on several Pythons.

People bring images of their own, with another Python and another Keras than ours. The Pythons are those that
`requires-python` allows: the paths given as arguments, else what is found. Each makes an environment of make's own pins
(tools/environment.py); in front of that stands, in `<cache>/matrix`, one of Keras alone. The quick tests are the
trainer's unit tests, and those with real processes that carry the marker `matrix`. Prints a table and writes
build/results/matrix.json.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from tools import environment, stages
from tools.stages import Counts, Outcome

ROOT: Final = environment.ROOT
PROJECT: Final[dict[str, Any]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PACKAGES: Final = ("keras", "tensorflow-cpu", "numpy")
"""Whose versions are told."""
PROBE: Final = "import ensurepip, venv, sys; print('%d.%d.%d' % sys.version_info[:3])"


@dataclass(frozen=True, slots=True)
class Python:
    """An interpreter that can make environments; `minor` is its version without the patch number."""

    path: Path
    version: str

    @property
    def minor(self) -> str:
        return self.version.rpartition(".")[0]


@dataclass(frozen=True, slots=True)
class Cell:
    """What was run with one Python and one Keras; `versions` are those of PACKAGES.

    Without an outcome, `why` says what failed.
    """

    python: Python
    keras: str
    versions: dict[str, str]
    outcome: Outcome | None = None
    why: str = ""

    @property
    def ok(self) -> bool:
        return self.outcome is not None and self.outcome.ok

    @property
    def counts(self) -> Counts:
        return (self.outcome and self.outcome.counts) or Counts()


def minors() -> list[str]:
    """The versions of Python that `requires-python` allows."""
    allowed = SpecifierSet(PROJECT["requires-python"])
    return [minor for minor in (f"3.{number}" for number in range(100)) if f"{minor}.99" in allowed]


def keras_range() -> SpecifierSet:
    wanted = map(Requirement, PROJECT["optional-dependencies"]["trainer"])
    return next(one.specifier for one in wanted if one.name == "keras")


def oldest_keras() -> str:
    return next(bound.version for bound in keras_range() if bound.operator == ">=")


def newest_keras() -> str:
    """The newest that the package index has, or what is pinned where it cannot be asked."""
    ask = ("install", "--dry-run", "--ignore-installed", "--no-deps", "--quiet", "--report=-")
    command = (sys.executable, "-m", "pip", *ask, f"keras{keras_range()}")
    asked = subprocess.run(command, capture_output=True, check=False, text=True)
    if asked.returncode == 0:
        return str(json.loads(asked.stdout)["install"][0]["metadata"]["version"])
    (pinned,) = re.findall(r"^keras==(\S+)", environment.REQUIREMENTS.read_text(), re.MULTILINE)
    environment.say(f"pip cannot say which Keras is the newest; {pinned} is, which is pinned")
    return str(pinned)


def probe(path: Path) -> Python | str:
    """The interpreter at `path`, or a sentence that says why it is not used."""
    try:
        asked = subprocess.run((path, "-c", PROBE), capture_output=True, check=False, text=True, timeout=60)
    except OSError as problem:
        return f"{path} cannot be run ({problem.strerror})"
    if asked.returncode != 0:
        said = (asked.stderr.strip() or "no message").splitlines()
        return f"{path} cannot create environments ({said[-1]})"
    return Python(path, asked.stdout.strip())


def candidates(minor: str) -> Iterator[Path]:
    """Where a Python of this version may be: beside make's own, on the PATH, and among pyenv's."""
    for folder in (f"{sys.base_prefix}/bin", *os.get_exec_path()):
        yield Path(folder, f"python{minor}")
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    yield from sorted(pyenv.glob(f"versions/{minor}.*/bin/python{minor}"))


def find(given: Sequence[str]) -> tuple[list[Python], list[str]]:
    """The Pythons to run, one for each version, and a line for each that is skipped."""
    found: dict[str, Python] = {}
    skipped = {minor: f"Python {minor} is skipped: not among PYTHONS" for minor in minors()}
    refused = []
    for path in given:
        match probe(Path(path)):
            case Python() as python if python.minor in skipped:
                found.setdefault(python.minor, python)
            case Python() as python:
                refused.append(f"{path} is skipped: Python {python.version} is not {PROJECT['requires-python']}")
            case problem:
                refused.append(f"{path} is skipped: {problem}")
    for minor in () if given else minors():
        tried = [probe(path) for path in candidates(minor) if path.exists()]
        usable = [python for python in tried if isinstance(python, Python) and python.minor == minor]
        if usable:
            found[minor] = usable[0]
        else:
            why = next((problem for problem in tried if isinstance(problem, str)), "it is not on this machine")
            skipped[minor] = f"Python {minor} is skipped: {why}; PYTHONS=<path of python{minor}> names another"
    missing = [line for minor, line in skipped.items() if minor not in found]
    return [found[minor] for minor in minors() if minor in found], refused + missing


def tests() -> list[str]:
    """The files of the quick tests: the trainer's unit tests, and all in which the marker stands."""
    trainer = re.compile(r"^\s*(import|from) (dtj|dtj_trainer)\b", re.MULTILINE)
    units = [path for path in (ROOT / "tests" / "unit").rglob("test_*.py") if path.parent.name != "repository"]
    real = (ROOT / "tests" / "trainer").rglob("test_*.py")
    chosen = [path for path in units if trainer.search(path.read_text())]
    chosen += [path for path in real if "mark.matrix" in path.read_text()]
    return sorted(str(path.relative_to(ROOT)) for path in chosen)


def base(python: Python) -> Path:
    """The interpreter of the environment that this Python makes of make's own pins."""
    command = (python.path, environment.__file__, python.minor)
    made = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True)
    if made.returncode != 0:
        msg = f"no environment of {python.path} (see above)"
        raise environment.EnvironmentImpossibleError(msg)
    return Path(made.stdout.strip())


def interpreter(python: Python, keras: str) -> Path:
    """The interpreter of an environment that has this Keras and all else from `base`."""
    below = base(python)
    venv = environment.cache() / "matrix" / f"{python.minor}-{below.parents[1].name}-keras-{keras}"
    venv.parent.mkdir(exist_ok=True)
    with venv.with_name(f"{venv.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (venv / "complete").exists():
            shutil.rmtree(venv, ignore_errors=True)
            packages = f"lib/python{python.minor}/site-packages"
            install = (below, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary=:all:")
            into = ("--no-deps", "--target", venv / packages, f"keras=={keras}")
            try:
                subprocess.run((below, "-m", "venv", "--without-pip", venv), check=True, stdout=sys.stderr)
                (venv / packages / "base.pth").write_text(f"{below.parents[1] / packages}\n")
                subprocess.run((*install, *into), check=True, stdout=sys.stderr)
                subprocess.run((venv / "bin" / "python", "-m", "pip", "check"), check=True, stdout=sys.stderr)
            except subprocess.CalledProcessError as problem:
                msg = f"no environment with Keras {keras} and the pins of {environment.REQUIREMENTS.name} (see above)"
                raise environment.EnvironmentImpossibleError(msg) from problem
            (venv / "complete").touch()
    return venv / "bin" / "python"


def run(python: Python, keras: str) -> Cell:
    name = f"python-{python.minor}-keras-{keras}"
    try:
        executable = interpreter(python, keras)
    except environment.EnvironmentImpossibleError as problem:
        return Cell(python, keras, {}, why=str(problem))
    ask = f"import json, importlib.metadata as m; print(json.dumps({{n: m.version(n) for n in {PACKAGES}}}))"
    versions = json.loads(subprocess.run((executable, "-c", ask), capture_output=True, check=True).stdout)
    pytest = (str(executable), "-m", "pytest", "-q", "-p", "no:cacheprovider", *stages.GROUPED)
    report = f"--junitxml={stages.RESULTS / f'junit-{name}.xml'}"
    processes = ("-n", str(len(os.sched_getaffinity(0))), "-m", "matrix or not trainer", report)
    return Cell(python, keras, versions, stages.run(stages.Stage(name, (*pytest, *processes, *tests()), tests=True)))


def table(cells: Iterable[Cell]) -> str:
    line = "{:<8} {:<8} {:<11} {:<8} {:<8} {:>8}  {}"
    rows = [line.format("Python", "Keras", "TensorFlow", "NumPy", "result", "seconds", "tests")]
    for cell in cells:
        versions = (cell.versions.get(name, "-") for name in PACKAGES[1:])
        seconds = f"{cell.outcome.seconds:.0f}" if cell.outcome else "-"
        ended = ("ok" if cell.ok else "FAILED", seconds, cell.why or cell.counts)
        rows.append(line.format(cell.python.version, cell.versions.get("keras", cell.keras), *versions, *ended))
    return "\n".join(rows)


def as_json(cells: Iterable[Cell], skipped: Sequence[str]) -> str:
    told = [
        {
            "python": cell.python.version,
            "keras": cell.keras,
            **cell.versions,
            "ok": cell.ok,
            "passed": cell.counts.passed,
            "failed": cell.counts.failed,
            "skipped": cell.counts.skipped,
            "seconds": round(cell.outcome.seconds) if cell.outcome else None,
            "why": cell.why,
        }
        for cell in cells
    ]
    return (
        json.dumps({"date": f"{datetime.now(UTC):%Y-%m-%d}", "runs": told, "skipped": list(skipped)}, indent=2) + "\n"
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="make matrix", description="Run the quick tests on other Pythons and Keras.")
    parser.add_argument("python", nargs="*", help="the Pythons to run on, instead of all that are found")
    pythons, skipped = find(parser.parse_args().python)
    keras = (oldest_keras(), newest_keras())
    try:
        stages.RESULTS.mkdir(parents=True, exist_ok=True)
        cells = [run(python, version) for python in pythons for version in keras]
    except KeyboardInterrupt:
        return 130
    (stages.RESULTS / "matrix.json").write_text(as_json(cells, skipped))
    failed = [f"FAILED {line}" for cell in cells if cell.outcome for line in cell.outcome.failures]
    print("", table(cells), "", *skipped, *failed, sum((cell.counts for cell in cells), Counts()), sep="\n")
    return 0 if cells and all(cell.ok for cell in cells) else 1


if __name__ == "__main__":
    sys.exit(main())
