"""`dtj convert`: manifests in, manifests out, and every difference in a line."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from dtj.cli.manifests import ManifestError, dump, parse
from dtj.convert import ConversionError, convert

LISTS = ("List", "TFJobList", "JobList")
"""Kinds of documents whose items may be jobs, as `kubectl get -o yaml` and API servers print them."""
OTHER_JOBS = re.compile(r"([\w.]+\.)?kubeflow\.org/|batch\.volcano\.sh/")
"""API versions of kinds for which people may expect a conversion."""


@dataclass(slots=True)
class Report:
    """What people are told, a line for each sentence."""

    console: Console
    failed: int = 0

    def note(self, place: str, sentence: str) -> None:
        """Tell of a difference."""
        self.console.print(Text(f"{place}: {sentence}"))

    def error(self, place: str, sentence: str) -> None:
        """Tell what could not be converted."""
        self.failed += 1
        self.console.print(Text.assemble(f"{place}: ", ("error: ", "bold red"), sentence))


def convert_files(names: Sequence[str]) -> int:
    """Convert what is in the files, and return the exit code."""
    report = Report(Console(stderr=True, soft_wrap=True))
    for name in names:
        for place, document in _documents(name, report):
            try:
                text = dump(_convert(place, document, report))
            except ConversionError as problem:
                report.error(place, f"{problem}.")
            except RecursionError:
                report.error(place, "the document contains itself, or is nested too deeply: write its aliases out.")
            else:
                sys.stdout.buffer.write(f"---\n{text}".encode())
    if report.failed:
        report.console.print(Text(f"Not converted: {report.failed}. All else is printed."))
    return 1 if report.failed else 0


def _documents(name: str, report: Report) -> Iterator[tuple[str, Any]]:
    """Read the documents of a file with their places; items of lists one by one."""
    shown = "stdin" if name == "-" else name
    try:
        text = (sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()).decode("utf-8-sig")
        for line, document in parse(text):
            place = f"{shown}:{line}"
            for item in _items(document):
                yield place, item
    except OSError as problem:
        report.error(shown, f"the file cannot be read: {problem.strerror}.")
    except UnicodeDecodeError as problem:
        report.error(
            shown, f"the file is not text in UTF-8: byte {problem.start} is {problem.object[problem.start]:#x}."
        )
    except ManifestError as problem:
        report.error(f"{shown}:{problem.line}", f"{problem}.")


def _items(document: Any) -> list[Any]:
    """Return the items of a list, else the document alone."""
    items = document.get("items") if isinstance(document, Mapping) and document.get("kind") in LISTS else None
    if not isinstance(items, list):
        return [document]
    if document["kind"] == "List":
        return items
    # An API server leaves out what the list says of all its items.
    common = {"apiVersion": document.get("apiVersion"), "kind": document["kind"].removesuffix("List")}
    return [{**common, **item} if isinstance(item, Mapping) else item for item in items]


def _convert(place: str, document: Any, report: Report) -> Any:
    """Return the document to print."""
    if not isinstance(document, Mapping):
        raise ConversionError("the document is no object: every manifest has apiVersion, kind and metadata")
    conversion = convert(document)
    if conversion is None:
        if OTHER_JOBS.match(str(document.get("apiVersion"))):
            kind = document.get("kind")
            report.note(
                place, f"{kind} is no TFJob and no Volcano job with the plugin tensorflow: it is printed as it is."
            )
        return document
    for sentence in conversion.notes:
        report.note(place, f"{conversion.name}: {sentence}")
    return conversion.manifest
