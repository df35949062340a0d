"""Asks once before a load that others may feel, and before one that expires on routers. `--yes` answers the first; the embedded line is never asked about."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import typer

from linkqual.cli.options import columns
from linkqual.errors import UsageError
from linkqual.folding import folded

if TYPE_CHECKING:
    from linkqual.model import Plan


def ask(plan: Plan) -> None:
    """Return when the plan may be carried out. UsageError: the answer is no, or a line in service and nobody there to ask."""
    from linkqual import plan as planner
    from linkqual.plan.bounds import concern

    found = concern(plan)
    if not found:
        return
    if not at_terminal():
        if plan.link.in_service:
            raise UsageError(
                f"{found}, and nobody is there to be asked",
                "give --yes to send it, or less: --duty 10%, --max-rate, --max-bytes; `linkqual plan` shows what would be sent",
            )
        return  # scripts know what they start; the link file says which lines need more than that
    _tell([f"{plan.link.name}: {found}", *(f"  {line}" for line in [*planner.traffic(plan), *planner.expiring(plan)])])
    if not _agreed("Send it?"):
        raise UsageError("nothing was sent", "less is sent with --duty 10%, --max-rate, --max-bytes or --skip")


def at_terminal() -> bool:
    """Whether somebody is there to be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def expiring(plan: Plan) -> bool:
    """Whether somebody at the terminal agrees to load that expires on routers: how many packets, and where, is said first."""
    from linkqual import plan as planner

    first = f"{plan.link.name}: the search for the narrowest hop sends load that expires on routers"
    _tell([first, *(f"  {line}" for line in planner.expiring(plan))])
    return _agreed("May it expire there?")


def _tell(lines: list[str]) -> None:
    for line in folded(lines, columns(2)):
        typer.echo(line, err=True)


def _agreed(question: str) -> bool:
    try:
        return typer.confirm(question, err=True)
    except typer.Abort:  # the end of input, or Ctrl-C: no answer is no
        return False
