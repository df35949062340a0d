"""Draw the report of a stored run again, from its document alone.

\b
Examples:
  linkqual report runs/20261130T071756Z-training-clean
  linkqual report RUN --format html -o acceptance.html
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from linkqual.cli import options, read
from linkqual.cli.qualifying import colours
from linkqual.errors import UsageError


def run(
    folder: options.RunFolder,
    form: Annotated[
        str, typer.Option("--format", "-f", metavar="FORMAT", help="terminal, html, json or csv.")
    ] = "terminal",
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="[default: standard output]", show_default=False),
    ] = None,
    zone: Annotated[
        str | None, typer.Option("--zone", metavar="ZONE", help="IANA time zone shown beside UTC.", show_default=False)
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Render."""
    from linkqual import reports, store

    form = "json" if as_json else form
    if form not in reports.FORMATS:
        raise UsageError(f"there is no report format {form!r}", hint=f"formats: {', '.join(reports.FORMATS)}")
    stored = store.load(folder)
    if zone is not None:
        stored = replace(stored, zone=read.zone(zone))
    width = shutil.get_terminal_size((100, 24)).columns
    text = reports.render(stored, form, width=width, color=output is None and colours())
    if output is None:
        typer.echo(text, nl=not text.endswith("\n"))
    else:
        typer.echo(str(write(output, text)))


def write(path: Path, text: str) -> Path:
    """Write a report where the user wants it. UsageError when that cannot be written."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}", hint="name another file") from error
    return path
