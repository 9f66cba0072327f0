"""The programs of the corpus, and what each says of itself."""

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

PROGRAMS = Path(__file__).parent / "programs"
OWN_FORM = ".dtj.py"
"""Ends the name of the other form of a program that one line does not change into it."""


@dataclass(frozen=True)
class Program:
    """A plain Keras program.

    `band`: of a program that more than one replica does not train equally, how far its last losses may be from Keras',
    as a share. `random`: it draws numbers in each step, so the band counts for one replica too. `shared`: its workers
    need one working directory, as on a volume. `needs`: packages that only `make corpus` installs.
    """

    path: Path
    summary: str
    band: float | None = None
    random: bool = False
    shared: bool = False
    needs: tuple[str, ...] = ()

    @property
    def family(self) -> str:
        return self.path.parent.name

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def own_form(self) -> Path | None:
        """The file of the other form, where one changed line is not enough."""
        path = self.path.with_suffix(OWN_FORM)
        return path if path.exists() else None

    def band_for(self, replicas: int) -> float | None:
        return self.band if self.random or replicas > 1 else None


def read(path: Path) -> Program:
    """Read the docstring and the constants BAND, RANDOM, SHARED and NEEDS; the program is not run."""
    tree = ast.parse(path.read_text())
    constants = {
        target.id: ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant | ast.Tuple)
        for target in node.targets
        if isinstance(target, ast.Name) and target.id in {"BAND", "RANDOM", "SHARED", "NEEDS"}
    }
    summary = (ast.get_docstring(tree) or "").partition(": ")[2].removesuffix(".")
    return Program(path, summary, **{name.lower(): value for name, value in constants.items()})


def programs(only: Sequence[str] = ()) -> list[Program]:
    """Return all programs, or those with these names or of these families."""
    paths = sorted(path for path in PROGRAMS.rglob("*.py") if not path.name.endswith(OWN_FORM))
    found = [read(path) for path in paths]
    if unknown := set(only) - {word for each in found for word in (each.name, each.family)}:
        raise ValueError(f"The corpus has no program or family {', '.join(sorted(unknown))}; see {PROGRAMS.name}/.")
    return [each for each in found if not only or {each.name, each.family} & set(only)]
