"""All commands of `dtj`, with their arguments."""

from __future__ import annotations

from typing import Annotated

import typer

from dtj.cli.convert import convert_files

app = typer.Typer(
    rich_markup_mode="markdown",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)


@app.callback()
def dtj() -> None:
    """The client of DistributedTrainingJobs."""


@app.command()
def convert(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE", help="YAML or JSON manifests; - is the standard input.")
    ],
) -> None:
    """Turn TFJobs, and Volcano jobs with the plugin tensorflow, into DistributedTrainingJobs.

    Prints the manifests, those of other kinds unchanged. Says on the standard error what behaves differently and what
    is left out. Ends with 1 if a document could not be converted; the others are printed all the same.
    """
    raise typer.Exit(convert_files(files))
