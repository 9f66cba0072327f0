"""The programs of the corpus, and what each says of itself."""

import ast
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

PROGRAMS = Path(__file__).parent / "programs"
OWN_FORM = ".dtj.py"
"""Ends the name of the other form of a program that one line does not change into it."""

CONSTANTS = ("BAND", "REASON", "CONTROL", "RANDOM", "SHARED", "NEEDS")


@dataclass(frozen=True)
class Program:
    """A plain Keras program.

    `band`: of a program that more than one replica does not train equally, how far its last losses may be from Keras',
    as a share, and the `reason`; with the texts of `control` replaced, the program has nothing of that and has to train
    equally. `random`: the band counts for one replica too. `shared`: its workers need one working directory, as on a
    volume. `needs`: packages that only `make corpus` installs.
    """

    path: Path
    summary: str
    band: float | None = None
    reason: str = ""
    control: tuple[tuple[str, str], ...] = ()
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

    def without_reason(self, folder: Path) -> "Program":
        """Return the control, written into `folder`: the program without the reason for its band."""
        lines = self.path.read_text().splitlines(keepends=True)
        end = _constants(ast.parse("".join(lines)))["CONTROL"].end_lineno  # the constant has the texts too
        text = "".join(lines[end:])
        for old, new in self.control:
            text = text.replace(old, new)
        path = folder / self.path.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(lines[:end]) + text)
        return replace(self, path=path, band=None, random=False)

    def band_for(self, replicas: int) -> float | None:
        return self.band if self.random or replicas > 1 else None


def read(path: Path) -> Program:
    """Read the docstring and the constants of CONSTANTS; the program is not run."""
    tree = ast.parse(path.read_text())
    constants = {name: ast.literal_eval(node) for name, node in _constants(tree).items()}
    summary = (ast.get_docstring(tree) or "").partition(": ")[2].removesuffix(".")
    return Program(path, summary, **{name.lower(): value for name, value in constants.items()})


def _constants(tree: ast.Module) -> dict[str, ast.expr]:
    return {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name) and target.id in CONSTANTS
    }


def programs(only: Sequence[str] = ()) -> list[Program]:
    """Return all programs, or those with these names or of these families."""
    paths = sorted(path for path in PROGRAMS.rglob("*.py") if not path.name.endswith(OWN_FORM))
    found = [read(path) for path in paths]
    if unknown := set(only) - {word for each in found for word in (each.name, each.family)}:
        raise ValueError(f"The corpus has no program or family {', '.join(sorted(unknown))}; see {PROGRAMS.name}/.")
    return [each for each in found if not only or {each.name, each.family} & set(only)]
