"""Judge a stored run, against the profile it was measured for or another one. Nothing is sent.

Delays and losses are counted anew from the run's own packets, so a new limit needs no new measurement.

\b
Example:
  linkqual judge runs/20261130T071756Z-training-clean --profile inference
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from linkqual.cli import options, read
from linkqual.cli.qualifying import exit_code, tell


def run(
    folder: options.RunFolder,
    profile: Annotated[
        str | None,
        typer.Option(
            "--profile", "-p", metavar="NAME|FILE", help="[default: the one it was measured for]", show_default=False
        ),
    ] = None,
    link: options.LinkFile = None,
    name: options.Name = None,
    vendor: options.Vendor = None,
    cir: options.Cir = None,
    cir_reverse: options.CirReverse = None,
    mtu: options.Mtu = None,
    rtt_budget: options.RttBudget = None,
    report: Annotated[
        Path | None,
        typer.Option("--report", metavar="FILE", help="Write the HTML report of this judgement.", show_default=False),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Judge again."""
    from linkqual import rejudge, store

    stored = store.load(folder)
    yardstick = read.profile(profile) if profile is not None else stored.profile
    facts = read.link(
        link, stored.plan.link, name=name, vendor=vendor, cir=cir, cir_reverse=cir_reverse, mtu=mtu, rtt_budget=rtt_budget
    )  # fmt: skip
    done = rejudge.rejudge(folder if os.path.isdir(folder) else folder.parent, stored, yardstick, facts)
    files = []
    if report is not None:
        from linkqual.cli.report import write
        from linkqual.reports import html

        files.append(write(report, html.render(done)))
    tell(done, as_json=as_json, files=files)
    raise typer.Exit(exit_code(done))
