"""The site of the docs: it has every page, its links are right, and it loads nothing from other hosts."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tools.site_pages import OUTSIDE, ROOT, for_site

CONFIG = (ROOT / "mkdocs.yml").read_text()
URL = "https://code.example/dtj"
LOADED = re.compile(r"<(?:script|link|img|iframe)\b[^>]*?\b(?:src|href)=[\"']?((?:https?:)?//[^\"'\s>]+)")


def entries(navigation: Any) -> list[str]:
    """The pages of a part of the navigation."""
    if isinstance(navigation, str):
        return [navigation]
    parts = navigation.values() if isinstance(navigation, dict) else navigation
    return [entry for part in parts for entry in entries(part)]


def test_the_navigation_has_every_page_once():
    shown = entries(yaml.safe_load(f"nav:{CONFIG.partition('nav:')[2]}")["nav"])
    pages = [page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")]
    assert sorted(shown) == sorted([*pages, *OUTSIDE.values()])


@pytest.mark.parametrize(("source", "written", "shown"), [
    ("docs/howto/data.md", "[a](../reference/job.md#b)", "[a](../reference/job.md#b)"),
    ("docs/howto/data.md", "[a](../../SECURITY.md#b)", "[a](../SECURITY.md#b)"),
    ("docs/howto/data.md", "[a](../../README.md)", "[a](../index.md)"),
    ("README.md", "![a](docs/pictures/demo.svg)", "![a](pictures/demo.svg)"),
    ("README.md", "[![a](docs/pictures/demo.svg)](docs/glossary.md)", "[![a](docs/pictures/demo.svg)](glossary.md)"),
    ("charts/dtj-operator/README.md", "[a](../../docs/howto/alerts.md)", "[a](../howto/alerts.md)"),
    ("docs/howto/gke.md", "[`a`](../../examples/hello.yaml#b)", f"[`a`]({URL}/blob/main/examples/hello.yaml#b)"),
    ("docs/howto/gke.md", "[a](../../examples)", f"[a]({URL}/tree/main/examples)"),
    ("docs/howto/gke.md", "[a](#b) [c](https://d.example/e)", "[a](#b) [c](https://d.example/e)"),
    ("docs/howto/gke.md", "`[a](../../README.md)`", "`[a](../../README.md)`"),
    ("docs/howto/gke.md", "```\n[a](../../README.md)\n```", "```\n[a](../../README.md)\n```"),
    ("docs/howto/gke.md", "| `a\\|b` | c |", "| `a|b` | c |"),
])  # fmt: skip
def test_a_page_is_shown_with_links_from_its_place_in_the_site(source: str, written: str, shown: str):
    assert for_site(written, source, URL) == shown


def test_a_link_to_a_file_is_text_while_the_repository_has_no_address():
    assert for_site("see [`a`](../../examples/hello.yaml).", "docs/howto/gke.md", "") == "see `a`."


def test_the_site_is_built_and_loads_nothing_from_other_hosts():
    done = subprocess.run(
        [sys.executable, "-m", "tools.site"], cwd=ROOT, capture_output=True, text=True, check=False, timeout=200
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    site = ROOT / "build" / "site"
    built = [*site.rglob("*.html")]
    assert len(built) == len([*(ROOT / "docs").rglob("*.md")]) + len(OUTSIDE) + 1  # 404.html
    assert [found for page in built for found in LOADED.findall(page.read_text())] == []
    styles: list[Path] = [*site.rglob("*.css")]
    assert [
        found for style in styles for found in re.findall(r"url\(['\"]?(?:https?:)?//[^)]*", style.read_text())
    ] == []
