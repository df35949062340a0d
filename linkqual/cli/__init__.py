"""The command line: one small file a verb. Nothing heavy is imported before a verb runs. Floor 6."""

from __future__ import annotations

import errno
import os
import sys
import traceback

import typer

from linkqual import __version__
from linkqual.cli import agent, doctor, import_, judge, lab, measure, path, plan, probes, profiles, report, test
from linkqual.cli.options import columns
from linkqual.cli.signals import Interrupted, raise_on_signals
from linkqual.errors import ExitCode, LinkqualError
from linkqual.folding import folded

_OUTPUT_ENDS = (errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EIO)

app = typer.Typer(
    name="linkqual",
    help="Qualify a dedicated line for AI training or inference: real packets, both directions, a verdict with its proof.\n\n"
    "\b\n"
    "linkqual test --profile training       the embedded virtual line, to see how it works\n"
    "linkqual path                          its path alone, drawn\n"
    "linkqual agent                         at the far end; prints the pairing line to paste\n"
    "linkqual test 'linkqual://...' --profile training --cir 10G --rtt-budget 12ms\n\n"
    "\b\n"
    "Exit codes of every verb that judges:\n"
    "0 pass, 1 fail, 2 usage or profile error, 3 inconclusive, 4 no data / could not measure",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"linkqual {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    _version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    pass


for verb in (test, path, plan, measure, judge, report, import_, agent, doctor, profiles, probes):
    app.command(name=verb.__name__.rsplit(".", 1)[-1].rstrip("_"), help=verb.__doc__)(verb.run)
app.add_typer(lab.app, name="lab")


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; returns the exit code (see linkqual.errors)."""
    raise_on_signals()
    for name in ("stdout", "stderr"):  # closed by the shell, `>&-`
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - for the life of the process
    # tc, nft and iptables are administrators' programs, and their folders not in an ordinary user's PATH on Debian
    os.environ["PATH"] = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
    try:
        app(arguments, standalone_mode=True)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else int(bool(stop.code))
    except LinkqualError as error:
        say_error(error)
        return error.exit_code
    except Interrupted as stop:
        typer.echo("linkqual: interrupted", err=True)
        return 128 + stop.signal
    except Exception as error:  # a fault of ours must not look like the line's: exit code 1 means FAIL
        if not _unheard(error):
            traceback.print_exc()
            typer.echo("linkqual: this is a fault of linkqual itself; please report the lines above", err=True)
        return ExitCode.NO_DATA
    return ExitCode.PASS


def _unheard(error: Exception) -> bool:
    """Whether standard output takes no more: a reader that left (`| head`) is told nothing, a full disk is."""
    if not isinstance(error, OSError) or error.errno not in _OUTPUT_ENDS or error.filename is not None:
        return False
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if not isinstance(error, BrokenPipeError):
        typer.echo(f"linkqual: the answer cannot be written: {error.strerror}", err=True)
    return True


def say_error(error: LinkqualError) -> None:
    """What is wrong, and what to do next. A far end not yet recognised may have had a say in it: nothing of it steers a terminal."""
    from linkqual.reports.inert import inert

    for text in (f"linkqual: {error.message}", f"  {error.hint}" if error.hint else ""):
        if text:
            typer.echo("\n".join(folded(map(inert, text.split("\n")), columns(2))), err=True)
