"""The virtual dedicated line: for trials of your own, and in memory under a fake clock."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from linkqual.cli import options, read
from linkqual.cli.options import AsJson, say_json

if TYPE_CHECKING:
    from linkqual.lab.session import Session

app = typer.Typer(help=__doc__, no_args_is_help=True, rich_markup_mode=None)
LineName = Annotated[
    str, typer.Argument(metavar="LINE", help="A shipped line's name (`linkqual lab lines`) or a YAML file.")
]


@app.command()
def lines(as_json: AsJson = False) -> None:
    """List the lines that are shipped.

    \b
    Example:
      linkqual lab lines
    """
    from linkqual.lab import line

    found = [line.load(name) for name in line.names()]
    if as_json:
        say_json([{"name": each.name, "title": each.title, "about": each.about} for each in found])
        return
    for each in found:
        typer.echo(f"{each.name:<16}{each.title}")


@app.command()
def up(
    line: LineName = "clean",
    name: Annotated[str, typer.Option("--name", help="[default: the line's own]", show_default=False)] = "",
    as_json: AsJson = False,
) -> None:
    """Build a line that stays until `lab down`.

    \b
    Example:
      linkqual lab up lossy
    """
    from linkqual.lab import session

    _tell_labs([session.up(read.line(line), name)], as_json)


@app.command(name="list")
def list_(as_json: AsJson = False) -> None:
    """List the lines that are up, with their nodes and addresses.

    \b
    Example:
      linkqual lab list
    """
    from linkqual.lab import session

    found = session.running()
    if not found and not as_json:
        typer.echo("no line is up; `linkqual lab up clean` builds one")
    _tell_labs(found, as_json)


@app.command(name="exec", context_settings={"allow_interspersed_args": False, "ignore_unknown_options": True})
def exec_(
    node: Annotated[str, typer.Argument(help="A node of the line; `linkqual lab list` names them.")],
    command: Annotated[list[str], typer.Argument(metavar="-- CMD...", help="The program and its arguments.")],
    name: Annotated[str, typer.Option("--name", help="Which lab, when several are up.", show_default=False)] = "",
) -> None:
    """Run a program at a node of a line that is up; its exit code is passed on.

    \b
    Example:
      linkqual lab exec near-site -- ping -c 3 10.77.4.2
    """
    from linkqual.lab import session

    if command[:1] == ["--"]:
        command = command[1:]
    raise typer.Exit(session.execute(name, node, command))


@app.command()
def down(
    name: Annotated[str, typer.Argument(help="[default: every line that is up]", show_default=False)] = "",
) -> None:
    """Take lines down.

    \b
    Example:
      linkqual lab down
    """
    from linkqual.lab import session

    for each in [name] if name else [lab.name for lab in session.running()]:
        session.down(each)
        typer.echo(f"{each} is down")


def _tell_labs(labs: Sequence[Session], as_json: bool) -> None:
    if as_json:
        say_json([asdict(lab) for lab in labs])
        return
    for lab in labs:
        typer.echo(f"{lab.name}: {lab.title}")
        for node, (v4, v6) in lab.addresses.items():
            end = {lab.near: "near end", lab.far: "far end"}.get(node, "")
            typer.echo(f"  {node:<16}{v4:<16}{v6:<28}{end}".rstrip())


@app.command()
def simulate(
    line: LineName,
    packets: Annotated[str, typer.Option("--packets", metavar="N", help="How many packets, such as 2M.")] = "1M",
    rate: Annotated[str, typer.Option("--rate", metavar="PPS", help="Packets a second of the fake clock.")] = "20k",
    seed: Annotated[int, typer.Option("--seed", help="The same seed gives the same packets.")] = 1,
    profile: options.ProfileName = "training",
    output: options.Folder = None,
    as_json: AsJson = False,
) -> None:
    """Carry packets over a line in memory under a fake clock, and write a run folder as a measurement would.

    \b
    Example:
      linkqual lab simulate lossy --packets 2M --rate 20k --seed 7 -o RUN
    """
    from linkqual import store
    from linkqual.cli import simulating
    from linkqual.cli.qualifying import count, exit_code, tell

    described = read.line(line)
    folder = output or store.default_folder(Path("runs"), time.time_ns(), "simulated", described.name)
    done = simulating.carry(
        described,
        read.profile(profile),
        packets=count("--packets", packets),
        rate_pps=count("--rate", rate),
        seed=seed,
        folder=folder,
    )
    tell(done, as_json=as_json, files=[folder / store.DOCUMENT, folder / store.REPORT])
    raise typer.Exit(exit_code(done))
