"""The virtual dedicated line: for trials of your own, and in memory under a fake clock."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from linkqual.cli import options, read
from linkqual.cli.options import AsJson, say_json

app = typer.Typer(help=__doc__, no_args_is_help=True, rich_markup_mode=None)
LineName = Annotated[
    str, typer.Argument(metavar="LINE", help="A shipped line's name (`linkqual lab lines`) or a YAML file.")
]


@app.command()
def lines(as_json: AsJson = False) -> None:
    """List the lines that are shipped.

    Example:  linkqual lab lines
    """
    from linkqual.lab import line

    found = [line.load(name) for name in line.names()]
    if as_json:
        say_json([{"name": each.name, "title": each.title, "about": each.about} for each in found])
        return
    for each in found:
        typer.echo(f"{each.name:<16}{each.title}")


@app.command()
def up(line: LineName = "clean", as_json: AsJson = False) -> None:
    """Build a line that stays until `lab down`.

    Example:  linkqual lab up lossy && linkqual lab exec near -- ping -c 3 FAR_ADDRESS
    """
    from linkqual.lab import session

    built = session.up(read.line(line))
    if as_json:
        say_json(built)
    else:
        _show(built)


@app.command(name="list")
def list_(as_json: AsJson = False) -> None:
    """List the lines that are up, with their nodes and addresses.

    Example:  linkqual lab list
    """
    from linkqual.lab import session

    found = session.running()
    if as_json:
        say_json(found)
        return
    if not found:
        typer.echo("no line is up; `linkqual lab up clean` builds one")
    for each in found:
        _show(each)


@app.command(name="exec", context_settings={"allow_interspersed_args": False, "ignore_unknown_options": True})
def exec_(
    node: Annotated[str, typer.Argument(help="A node of the line; `linkqual lab list` names them.")],
    command: Annotated[list[str], typer.Argument(metavar="-- CMD...", help="The program and its arguments.")],
    line: Annotated[
        str | None, typer.Option("--line", help="Which line, when several are up.", show_default=False)
    ] = None,
) -> None:
    """Run a program at a node of a line that is up; its exit code is passed on.

    Example:  linkqual lab exec near -- traceroute -n 10.77.4.2
    """
    from linkqual.lab import session

    raise typer.Exit(session.execute(node, command, line))


@app.command()
def down(
    line: Annotated[str | None, typer.Argument(help="[default: every line that is up]", show_default=False)] = None,
) -> None:
    """Take lines down.

    Example:  linkqual lab down
    """
    from linkqual.lab import session

    for name in session.down(line):
        typer.echo(f"{name} is down")


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

    Example:  linkqual lab simulate lossy --packets 2M --rate 20k --seed 7 -o RUN
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
