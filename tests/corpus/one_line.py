"""Turns a plain Keras program into the one that trains with dtj, by what the README tells people to change."""

import ast
from dataclasses import dataclass

IMPORTED = "import dtj\n\ndtj.init()\n"


@dataclass(frozen=True)
class Edit:
    """Bytes of the source that are replaced."""

    start: int
    end: int
    text: bytes


def one_line(source: str) -> str:
    """Add the import and `dtj.init()` after the imports, and turn each `X.fit(` into `dtj.fit(X, `; nothing else."""
    code = source.encode()
    tree = ast.parse(source)
    lines = [0]
    for line in code.splitlines(keepends=True):
        lines.append(lines[-1] + len(line))
    imports = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    if not imports or not (last := imports[-1].end_lineno):
        raise ValueError("A program without imports has no line after them.")
    edits = [Edit(lines[last], lines[last], IMPORTED.encode())]
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "fit":
            model = node.func.value
            start = lines[model.lineno - 1] + model.col_offset
            stop = lines[(model.end_lineno or 1) - 1] + (model.end_col_offset or 0)
            opened = code.index(b"(", lines[(node.func.end_lineno or 1) - 1] + (node.func.end_col_offset or 0)) + 1
            comma = b", " if node.args or node.keywords else b""
            edits.append(Edit(start, opened, b"dtj.fit(" + code[start:stop] + comma))
    for edit in sorted(edits, key=lambda edit: edit.start, reverse=True):
        code = code[: edit.start] + edit.text + code[edit.end :]
    return code.decode()
