"""What is private to TensorFlow and Keras is used in `compat/` alone: import-linter sees their first names only."""

from __future__ import annotations

import ast
from pathlib import Path

TRAINER = Path(__file__).resolve().parents[3] / "trainer-image" / "dtj_trainer"
PRIVATE = ("tensorflow.python", "keras.src")


def imported(file: Path) -> set[str]:
    """The modules that a file imports, or imports names from."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        match node:
            case ast.Import(names=names):
                found |= {name.name for name in names}
            case ast.ImportFrom(module=str(module), names=names):
                found |= {f"{module}.{name.name}" for name in names}
    return found


def test_private_modules_are_imported_in_compat_alone():
    files = {
        file.relative_to(TRAINER).as_posix()
        for file in TRAINER.rglob("*.py")
        if any(f"{name}.".startswith(f"{private}.") for name in imported(file) for private in PRIVATE)
    }
    assert {file for file in files if not file.startswith("compat/")} == set()
