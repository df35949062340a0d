"""Asks once before a load that others may feel. `--yes` answers; the embedded line is never asked about."""

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
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        if plan.link.in_service:
            raise UsageError(
                f"{found}, and nobody is there to be asked",
                "give --yes to send it, or less: --duty 10%, --max-rate, --max-bytes; `linkqual plan` shows what would be sent",
            )
        return  # scripts know what they start; the link file says which lines need more than that
    typer.echo(f"{plan.link.name}: {found}", err=True)
    for line in traffic(plan):
        typer.echo(f"  {line}", err=True)
    try:
        agreed = typer.confirm("Send it?", err=True)
    except typer.Abort:  # the end of input, or Ctrl-C: no answer is no
        agreed = False
    if not agreed:
        raise UsageError("nothing was sent", "less is sent with --duty 10%, --max-rate, --max-bytes or --skip")
