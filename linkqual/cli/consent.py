"""Asks once before a load that others may feel, and before one that expires on routers. `--yes` answers the first; the embedded line is never asked about."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import typer

from linkqual.errors import UsageError

if TYPE_CHECKING:
    from linkqual.model import Plan


def ask(plan: Plan) -> None:
    """Return when the plan may be carried out. UsageError: the answer is no, or a line in service and nobody there to ask."""
    from linkqual.plan import traffic
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
    typer.echo(f"{plan.link.name}: {found}", err=True)
    for line in traffic(plan):
        typer.echo(f"  {line}", err=True)
    if not _agreed("Send it?"):
        raise UsageError("nothing was sent", "less is sent with --duty 10%, --max-rate, --max-bytes or --skip")


def at_terminal() -> bool:
    """Whether somebody is there to be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def expiring(plan: Plan) -> bool:
    """Whether somebody at the terminal agrees to load that expires on routers: how many packets, and where, is said first."""
    typer.echo(f"{plan.link.name}: the search for the narrowest hop sends load that expires on routers", err=True)
    for reason in plan.reasons:
        if reason.startswith("narrow"):
            typer.echo(f"  {reason}", err=True)
    return _agreed("May it expire there?")


def _agreed(question: str) -> bool:
    try:
        return typer.confirm(question, err=True)
    except typer.Abort:  # the end of input, or Ctrl-C: no answer is no
        return False
