"""Be the far end: answer probes, serve throughput tests, trace back. Prints the line to paste at the near end.

Needs no root; with it the reverse trace sees more. Open TCP 4862, UDP 4863-4894 and TCP 5201-5232 in the firewall.

With --reflector-only it serves STAMP and TWAMP-Light senders of others instead: only the sessions of a file, without control
channel and token. Open UDP 862 then. A session that names no port belongs to one port of its source until that has been silent for 0.5 s.

\b
Examples:
  linkqual agent
  linkqual agent --bind 192.0.2.7 --max-pps 50000
  linkqual agent --reflector-only --sessions senders.yaml
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from linkqual.errors import UsageError

if TYPE_CHECKING:
    from linkqual.wire.pairing import Peer

_DEFAULT = {"show_default": False}


def run(
    bind: Annotated[
        str,
        typer.Option(
            "--bind",
            metavar="ADDRESS",
            help="Address to listen on. [default: all; with --reflector-only those that lead to the sources]",
            **_DEFAULT,
        ),
    ] = "",
    port: Annotated[
        int | None,
        typer.Option(
            "--port",
            help="TCP port of the control channel [default: 4862], or UDP port of --reflector-only [default: 862]; 0: any free one.",
            **_DEFAULT,
        ),
    ] = None,
    name: Annotated[
        str,
        typer.Option(
            "--host-name",
            metavar="HOST",
            help="How the near end reaches this host, for the pairing line. [default: a guess]",
            **_DEFAULT,
        ),
    ] = "",
    token: Annotated[
        str | None,
        typer.Option("--token", envvar="LINKQUAL_TOKEN", help="[default: a new one at each start]", **_DEFAULT),
    ] = None,
    ephemeral: Annotated[
        bool, typer.Option("--ephemeral", help="A certificate for this start only, kept in memory.")
    ] = False,
    directory: Annotated[
        Path | None,
        typer.Option(
            "--directory",
            metavar="FOLDER",
            help="Where the certificate is kept. [default: ~/.config/linkqual/agent]",
            **_DEFAULT,
        ),
    ] = None,
    reflector_ports: Annotated[
        str, typer.Option(metavar="LOW-HIGH", help="UDP ports of the reflector and of loads.")
    ] = "4863-4894",
    iperf3_ports: Annotated[str, typer.Option(metavar="LOW-HIGH", help="TCP ports of iperf3.")] = "5201-5232",
    max_pps: Annotated[int, typer.Option(help="Most probe packets a second.")] = 500_000,
    max_bytes: Annotated[int, typer.Option(help="Most bytes of one session, probes and loads, both directions.")] = 10
    ** 13,
    max_seconds: Annotated[int, typer.Option(help="Longest single test.")] = 25 * 3600,
    max_bps: Annotated[int, typer.Option(help="Most bits a second of one UDP load sent from here.")] = 10**12,
    reflector_only: Annotated[
        bool, typer.Option("--reflector-only", help="Serve the foreign senders of --sessions and nobody else.")
    ] = False,
    sessions: Annotated[
        Path | None,
        typer.Option(
            "--sessions", metavar="FILE", help="Who may send what, for --reflector-only (YAML; see README).", **_DEFAULT
        ),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print the pairing line and nothing else.")] = False,
) -> None:
    """Serve until Ctrl-C."""
    if reflector_only or sessions is not None:
        _reflect(reflector_only, sessions, bind, port)
        return
    from linkqual.agent import server
    from linkqual.agent.config import AgentConfig, Caps
    from linkqual.wire.control import DEFAULT_PORT

    server.run(
        AgentConfig(
            bind_address=bind,
            port=DEFAULT_PORT if port is None else port,
            token=token,
            directory=directory,
            ephemeral=ephemeral,
            name=name,
            caps=Caps(max_pps, max_bytes, max_seconds, max_bps=max_bps),
            reflector_ports=_ports("--reflector-ports", reflector_ports),
            iperf3_ports=_ports("--iperf3-ports", iperf3_ports),
        ),
        log=_silent if quiet else _log,
        ready=_say_line if quiet else _ready,
    )


def _reflect(reflector_only: bool, file: Path | None, bind: str, port: int | None) -> None:
    """Serve the sessions of a file; what happens goes to standard output, line by line."""
    from linkqual import provision
    from linkqual.agent import foreign
    from linkqual.cli.read import file_text
    from linkqual.cli.signals import Gently

    if not reflector_only or file is None:
        raise UsageError(
            "--reflector-only and --sessions go together",
            "write: linkqual agent --reflector-only --sessions FILE.yaml",
        )
    sessions = provision.parse(file_text(file, "sessions file"), str(file))
    with Gently() as ended:
        foreign.serve(sessions, bind, foreign.PORT if port is None else port, _tell, ended)


def _tell(line: str) -> None:
    from linkqual.reports.inert import inert

    typer.echo(f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {inert(line)}")
    sys.stdout.flush()


def _ports(option: str, text: str) -> tuple[int, int]:
    low, _, high = text.partition("-")
    try:
        return int(low), int(high or low)
    except ValueError:
        raise UsageError(
            f"{option}: {text!r} is no range of ports", "write it as LOW-HIGH, such as 4863-4894"
        ) from None


def _log(line: str) -> None:
    from linkqual.reports.inert import inert

    typer.echo(f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {inert(line)}", err=True)


def _silent(_line: str) -> None:
    pass


def _say_line(peer: Peer) -> None:
    """The pairing line on standard output, alone, so that a script can read it."""
    typer.echo(peer.line)
    sys.stdout.flush()


def _ready(peer: Peer) -> None:
    _say_line(peer)
    typer.echo(
        "paste that line at the near end:  linkqual test 'LINE' --profile training     (Ctrl-C ends the agent)",
        err=True,
    )
