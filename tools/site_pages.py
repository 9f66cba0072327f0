"""What the site of the docs changes in its pages, which also work on a code host (a hook of mkdocs.yml).

Some pages outside docs/ belong to the site too. A link from one page to another leads inside the site; a link to any
other file leads to the repository, and is plain text while `repo_url` is not set.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
DOCS: Final = "docs/"
OUTSIDE: Final = {
    "README.md": "index.md",
    "charts/dtj-operator/README.md": "reference/chart-values.md",
    "CHANGELOG.md": "CHANGELOG.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "SECURITY.md": "SECURITY.md",
}
"""Pages outside docs/, by their paths in the repository, and their paths in the site."""
STYLE: Final = "tools/site.css"
BRANCH: Final = "main"
BLOCK: Final = r"(?ms:^(?P<indent> *)```.*?^(?P=indent)```)"
LINK: Final = r"(?P<image>!?)\[(?P<text>(?:[^\[\]]|!\[[^\]]*\]\([^)]*\))*)\]\((?P<target>[^)\s]+)\)"
CODE: Final = r"`[^`\n]*`"
PART: Final = re.compile(f"{BLOCK}|{LINK}|{CODE}")
ROW: Final = re.compile(r"^\|.*\|$", re.MULTILINE)


def on_files(files: Any, config: Any) -> Any:
    """Add the pages outside docs/, and the stylesheet."""
    from mkdocs.structure.files import File  # noqa: PLC0415 - only the environment of the site has it

    for page, name in OUTSIDE.items():
        files.append(File.generated(config, name, content=(ROOT / page).read_text(encoding="utf-8")))
    files.append(File.generated(config, posixpath.basename(STYLE), abs_src_path=str(ROOT / STYLE)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    inside = page.file.src_uri
    source = next((outside for outside, name in OUTSIDE.items() if name == inside), DOCS + inside)
    return for_site(markdown, source, config.repo_url or "")


def for_site(markdown: str, source: str, repository: str) -> str:
    """Return a page as the site shows it.

    Args:
        markdown: The page.
        source: Its path in the repository.
        repository: The URL of the repository, "" while there is none.
    """
    written = PART.sub(lambda part: _led(part, source, repository) if part["target"] else part[0], markdown)
    return ROW.sub(lambda row: re.sub(CODE, lambda code: code[0].replace("\\|", "|"), row[0]), written)


def _led(link: re.Match[str], source: str, repository: str) -> str:
    """Return a link that leads to the same file or heading from where the page is in the site."""
    path, hash_, anchor = link["target"].partition("#")
    if not path or re.match(r"\w+:", path):
        return link[0]
    file = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
    page = _in_site(file)
    if page is not None:
        folder = posixpath.dirname(_in_site(source) or "")
        target = posixpath.relpath(page, folder or ".")
    elif repository:
        target = f"{repository.rstrip('/')}/{'tree' if (ROOT / file).is_dir() else 'blob'}/{BRANCH}/{file}"
    else:
        return link["text"]
    return f"{link['image']}[{link['text']}]({target}{hash_}{anchor})"


def _in_site(file: str) -> str | None:
    """Return the path in the site of a file of the repository; None if the site does not have it."""
    inside = file.removeprefix(DOCS) if file.startswith(DOCS) else None
    return OUTSIDE.get(file, inside)
