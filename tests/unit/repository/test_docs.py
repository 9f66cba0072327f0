"""Links in the documentation lead to files and headings that exist."""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
BLOCK = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`[^`\n]*`")
CODE = re.compile(rf"{BLOCK.pattern}|{INLINE.pattern}", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")


def pages() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    return [ROOT / name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]


def headings(page: Path) -> Iterator[str]:
    """The anchors of a page, as GitHub makes them."""
    for title in re.findall(r"^#+ (.*)$", BLOCK.sub("", page.read_text()), re.MULTILINE):
        yield re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-")


def broken(page: Path) -> Iterator[str]:
    for target in LINK.findall(INLINE.sub("", BLOCK.sub("", page.read_text()))):
        if re.match(r"\w+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = Path(os.path.normpath(page.parent / path)) if path else page
        if not file.exists():
            yield f"{target}: no such file"
        elif anchor and anchor not in headings(file):
            yield f"{target}: no such heading"


def test_every_relative_link_and_anchor_exists():
    found = {str(page.relative_to(ROOT)): list(broken(page)) for page in pages()}
    assert {page: links for page, links in found.items() if links} == {}


def test_every_page_of_the_docs_is_linked_from_another_page():
    linked = {
        Path(os.path.normpath(page.parent / target.partition("#")[0]))
        for page in pages()
        for target in LINK.findall(page.read_text())
        if not re.match(r"\w+:|#", target)
    }
    assert [str(page.relative_to(ROOT)) for page in pages() if page.parent != ROOT and page not in linked] == []


def test_every_decision_says_context_decision_and_consequences():
    decisions = sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md"))
    forms = {page.name: re.findall(r"^\*\*([A-Z]\w+)\.\*\*", page.read_text(), re.MULTILINE) for page in decisions}
    assert {name: form for name, form in forms.items() if form != ["Context", "Decision", "Consequences"]} == {}


def test_every_make_target_of_the_docs_exists():
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    code = "\n".join(found for page in pages() for found in CODE.findall(page.read_text()))
    assert set(re.findall(r"(?:^|`)make ([a-z0-9-]+)", code, re.MULTILINE)) - targets == set()


NAMED = re.compile(r"`((?:[\w.-]+/)*[\w.-]+\.(?:py|yaml|md)|(?:[\w.-]+/)+)`")
"""A file or folder in code style."""
COMING = {"reporting/training_log.py"}
"""A file that the split of the training loop is about to make."""


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "docs/architecture.md"])
def test_every_file_that_a_map_of_the_code_names_exists(page: str):
    roots = [ROOT, ROOT / "operator" / "dtj_operator", ROOT / "trainer-image" / "dtj_trainer", ROOT / "client" / "dtj"]
    named = set(NAMED.findall((ROOT / page).read_text())) - COMING
    assert [name for name in sorted(named) if not any((root / name).exists() for root in roots)] == []
