"""Writes the table of all programs into docs/reference/keras-programs.md; part of `make generate`."""

from pathlib import Path

from tests.corpus.catalogue import Program, programs

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "keras-programs.md"
HEAD = "| program | what is special | on two replicas |\n| --- | --- | --- |\n"


def claim(program: Program) -> str:
    return "equal" if program.band is None else f"last loss within {program.band:.0%}"


def row(program: Program) -> str:
    place = f"../../tests/corpus/programs/{program.family}/{program.path.name}"
    return f"| [{program.name}]({place}) | {program.summary} | {claim(program)} |\n"


def page() -> str:
    """Return the page with today's table in the place of the one it has."""
    before, _, _ = PAGE.read_text().partition(HEAD)
    return before + HEAD + "".join(map(row, programs()))


if __name__ == "__main__":
    PAGE.write_text(page())
