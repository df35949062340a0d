"""List the profiles, show one, or check a file of your own.

\b
Examples:
  linkqual profiles
  linkqual profiles training            every red line with its source
  linkqual profiles mine.yaml           complaints with file, line and key
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from linkqual.cli import read
from linkqual.cli.options import AsJson, say_json

if TYPE_CHECKING:
    from linkqual.model import Profile


def run(
    name: Annotated[str | None, typer.Argument(metavar="[NAME|FILE]", show_default=False)] = None,
    as_text: Annotated[bool, typer.Option("--yaml", help="Print the profile's text, to start your own from.")] = False,
    as_json: AsJson = False,
) -> None:
    """List, show or check."""
    from linkqual import profiles

    if as_text and name in profiles.names():
        typer.echo(profiles.text(name or ""), nl=False)
        return
    chosen = [read.profile(each) for each in ([name] if name else profiles.names())]
    if as_json:
        say_json([asdict(profile) for profile in chosen])
        return
    for profile in chosen:
        if name:
            _show(profile)
        else:
            typer.echo(f"{profile.name:<14}{profile.title}")


def _show(profile: Profile) -> None:
    typer.echo(f"{profile.name}: {profile.title}")
    typer.echo(f"  {profile.purpose}")
    for objective in profile.objectives:
        weight = "required" if objective.required else "advisory"
        typer.echo("")
        typer.echo(
            f"  {objective.metric} {objective.statistic}, {objective.direction}: {objective.relation} "
            f"{objective.limit_text} ({weight}, {objective.confidence:.0%} confidence)"
        )
        typer.echo(f"    {objective.source}")
    for note in (*profile.notes, *_beside_the_shipped(profile)):
        typer.echo(f"\n  note: {note}")


def _beside_the_shipped(profile: Profile) -> list[str]:
    """Remarks on a profile that is named for one purpose and asks what is shipped for another."""
    from linkqual import profiles
    from linkqual.profile.lint import compare

    named = f"{profile.name} {profile.title}".lower()
    others = [name for name in profiles.names() if name not in named]
    if len(others) == len(profiles.names()):
        return []
    return [remark for name in others if (remark := compare(profile, read.profile(name)))]
