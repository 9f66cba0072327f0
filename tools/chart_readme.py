"""Writes the README of the Helm chart from Chart.yaml and the comments of values.yaml (`make generate`).

The comments have the form of helm-docs: `# -- text` above a key describes it, further comment lines go on with the
text, and `# @section -- title` begins a section, for this key and those after it.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

CHART = Path(__file__).resolve().parent.parent / "charts" / "dtj-operator"
README = CHART / "README.md"
DESCRIPTION = "# -- "
SECTION = "# @section -- "
FIRST_SECTION = "Umbrella charts"
KINDS = {"bool": "bool", "int": "int", "float": "float", "str": "string", "list": "list", "dict": "object"}
INTRODUCTION = """\
# {name}

{description}

Version {version} of the chart, {appVersion} of the operator, for Kubernetes {kubeVersion}.
The images are not published yet: [build and push them](../../docs/getting-started.md#build-the-images) first.

```sh
helm install dtj-operator charts/dtj-operator --namespace dtj-system --create-namespace \\
  --set image.repository=REGISTRY/dtj-operator
helm test dtj-operator --namespace dtj-system
```

[Operate](../../docs/howto/operate.md) tells about upgrades, rollbacks, uninstalling and monitoring.
A misspelt value is refused. This page is written by `make generate` from [values.yaml](values.yaml).

"""


@dataclass(frozen=True)
class Value:
    """One row of the table."""

    section: str
    key: str
    default: object
    description: str

    @property
    def row(self) -> str:
        """Return the row in Markdown."""
        default = json.dumps(self.default, ensure_ascii=False)
        cells = (self.key, KINDS[type(self.default).__name__], f"`{default}`", self.description)
        return f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |"


def values(text: str) -> Iterator[Value]:
    """Yield the values with a description; ValueError for one that has none, nor is within one that has."""
    lines = text.splitlines()
    section = FIRST_SECTION

    def below(node: yaml.MappingNode, path: tuple[str, ...]) -> Iterator[Value]:
        nonlocal section
        for key, value in node.value:
            place = (*path, key.value)
            comments = _comments_above(lines, key.start_mark.line)
            sections = [comment for comment in comments if comment.startswith(SECTION)]
            section = sections[-1].removeprefix(SECTION) if sections else section
            if described := _description(comments):
                loaded = yaml.safe_load(yaml.serialize(value))
                yield Value(section, ".".join(place), loaded, described)
            elif isinstance(value, yaml.MappingNode) and value.value:
                yield from below(value, place)
            else:
                msg = f"{'.'.join(place)} has no description in values.yaml: write one above it, as `{DESCRIPTION}…`"
                raise ValueError(msg)

    root = yaml.compose(text)
    assert isinstance(root, yaml.MappingNode)
    yield from below(root, ())


def _comments_above(lines: list[str], line: int) -> list[str]:
    found: list[str] = []
    while line and lines[line - 1].strip().startswith("#"):
        line -= 1
        found.insert(0, lines[line].strip())
    return found


def _description(comments: list[str]) -> str:
    """Return the text from the last `# --` on."""
    starts = [number for number, comment in enumerate(comments) if comment.startswith(DESCRIPTION)]
    if not starts:
        return ""
    return re.sub(r"\s+", " ", " ".join(comment.lstrip("#- ") for comment in comments[starts[-1] :]))


def readme() -> str:
    """Return the README."""
    rows = list(values((CHART / "values.yaml").read_text(encoding="utf-8")))
    parts = [INTRODUCTION.format(**yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))), "## Values\n"]
    for section in dict.fromkeys(row.section for row in rows):
        parts += [f"\n### {section}\n", "\n| Key | Type | Default | Description |\n| --- | --- | --- | --- |\n"]
        parts += [f"{row.row}\n" for row in rows if row.section == section]
    return "".join(parts)


def main() -> int:
    README.write_text(readme(), encoding="utf-8")
    print(README.relative_to(CHART.parents[1]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
