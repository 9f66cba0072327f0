"""Writes the table of docs/reference/keras-programs.md from the kept result of the corpus; for `make generate`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.corpus import results
from tests.corpus.catalogue import Program, programs
from tests.corpus.results import CONTROL, COUNTED, KEPT

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "keras-programs.md"
HEAD = "| program | what is special | one worker | two workers |\n| --- | --- | --- | --- |\n"


def seen(run: Mapping[str, Any] | None) -> str:
    """Return what a job trained, in words."""
    if run is None:
        return "not run"
    match run["outcome"]:
        case "equal":
            return "equal"
        case "in its band":
            return f"last loss {run['deviation']['last_loss']:.1%} off"
        case "differs":
            found = run["deviation"]
            return f"**differs**: weights {found['weights']:.0e}, losses {found['losses']:.0e}"
        case "hangs":
            return "**does not end**"
        case _:
            return "**fails**"


def cell(program: Program, runs: Mapping[str, Any], job: str) -> str:
    """Return what a job trained: without a kill, with one, and without the reason for a band, where these were run."""
    texts = [seen(runs.get(job))]
    if band := program.band_for(int(job)):
        texts[0] += f" (at most {band:.1%}: {program.reason})"
        if job == COUNTED[-1]:
            texts.append(f"without that {seen(runs.get(CONTROL))}")
    if killed := runs.get(f"{job} killed"):
        texts.append(f"killed: {seen(killed)}")
    return "; ".join(texts)


def row(program: Program, runs: Mapping[str, Any]) -> str:
    place = f"../../tests/corpus/programs/{program.family}/{program.path.name}"
    cells = (f"[{program.name}]({place})", program.summary, *(cell(program, runs, job) for job in COUNTED))
    return f"| {' | '.join(cells)} |\n"


def page(found: Mapping[str, Any] | None = None) -> str:
    """Return the page with the table of these results, or of the kept ones, in the place of the one it has."""
    found = results.read(KEPT) if found is None else found
    before, _, _ = PAGE.read_text().partition(HEAD)
    return before + HEAD + "".join(row(each, found.get(each.name, {}).get("runs", {})) for each in programs())


if __name__ == "__main__":
    PAGE.write_text(page())
