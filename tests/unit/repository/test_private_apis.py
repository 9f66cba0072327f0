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


REPLACED = {
    "compat/keras_losses.py": {  # while a step is traced, in a `with`
        "losses.reduce_values",
        "losses.apply_mask",
        "losses.scale_loss_for_distribution",
        "losses.unscale_loss_for_distribution",
        "keras.losses.Loss.__call__",
        "CompileLoss.__call__",
    },
    "preload/imports.py": {"setattr"},  # `tensorflow.<name>` is the module that TensorFlow would set there
    "process/excepthook.py": {"sys.excepthook"},
    "process/program_runner.py": {"sys.argv"},
    "supervisor/main.py": {"threading.excepthook"},  # Python's hook for what ends a thread of PID 1
}
"""By file, what it sets in a module that it imports."""


def replaced(file: Path) -> set[str]:
    """Return the attributes of imported modules, and of names imported from them, that a file sets."""
    tree = ast.parse(file.read_text())
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    names = {(alias.asname or alias.name).split(".")[0] for node in imports for alias in node.names}
    found: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=targets):
                found |= {ast.unparse(each) for target in targets for each in ast.walk(target) if is_of(each, names)}
            case ast.Call(func=ast.Name(id="setattr" | "delattr" as name)):
                found.add(name)
    return found


def is_of(node: ast.AST, names: set[str]) -> bool:
    """Whether this sets an attribute of one of these names."""
    if not isinstance(node, ast.Attribute) or not isinstance(node.ctx, ast.Store):
        return False
    owner = node.value
    while isinstance(owner, ast.Attribute):
        owner = owner.value
    return isinstance(owner, ast.Name) and owner.id in names


def test_nothing_is_replaced_in_modules_of_others():
    found = {file.relative_to(TRAINER).as_posix(): replaced(file) for file in TRAINER.rglob("*.py")}
    assert {file: names for file, names in found.items() if names} == REPLACED
