"""`dtj convert`: manifests in, manifests out, and every difference in a line."""

from __future__ import annotations

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
"""Kinds of documents whose items are jobs, as `kubectl get -o yaml` prints them."""
OTHER_JOBS = ("kubeflow.org/", "batch.volcano.sh/")


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
            if isinstance(document, Mapping) and document.get("kind") in LISTS and _items(document):
                yield from ((place, item) for item in _items(document))
            else:
                yield place, document
    except OSError as problem:
        report.error(shown, f"the file cannot be read: {problem.strerror}.")
    except UnicodeDecodeError as problem:
        report.error(
            shown, f"the file is not text in UTF-8: byte {problem.start} is {problem.object[problem.start]:#x}."
        )
    except ManifestError as problem:
        report.error(f"{shown}:{problem.line}", f"{problem}.")


def _items(document: Mapping[str, Any]) -> list[Any]:
    found = document.get("items")
    return found if isinstance(found, list) else []


def _convert(place: str, document: Any, report: Report) -> Any:
    """Return the document to print."""
    if not isinstance(document, Mapping):
        raise ConversionError("the document is no object: every manifest has apiVersion, kind and metadata")
    conversion = convert(document)
    if conversion is None:
        if str(document.get("apiVersion")).startswith(OTHER_JOBS):
            kind = document.get("kind")
            report.note(
                place, f"{kind} is no TFJob and no Volcano job with the plugin tensorflow: it is printed as it is."
            )
        return document
    for sentence in conversion.notes:
        report.note(place, f"{conversion.name}: {sentence}")
    return conversion.manifest
