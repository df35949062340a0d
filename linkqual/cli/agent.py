"""Be the far end: answer probes, serve throughput tests, trace back. Prints the line to paste at the near end.

Needs no root; with it the reverse trace sees more. Open TCP 4862, UDP 4863-4894 and TCP 5201-5232 in the firewall.

\b
Examples:
  linkqual agent
  linkqual agent --bind 192.0.2.7 --max-pps 50000
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
        str, typer.Option("--bind", metavar="ADDRESS", help="Address to listen on. [default: all]", **_DEFAULT)
    ] = "",
    port: Annotated[int, typer.Option("--port", help="TCP port of the control channel; 0: any free one.")] = 4862,
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
    reflector_ports: Annotated[str, typer.Option(metavar="LOW-HIGH", help="UDP ports of the reflector.")] = "4863-4894",
    iperf3_ports: Annotated[str, typer.Option(metavar="LOW-HIGH", help="TCP ports of iperf3.")] = "5201-5232",
    max_pps: Annotated[int, typer.Option(help="Most probe packets a second.")] = 500_000,
    max_bytes: Annotated[
        int, typer.Option(help="Most bytes of one session, probes and throughput, both directions.")
    ] = 10**13,
    max_seconds: Annotated[int, typer.Option(help="Longest single test.")] = 24 * 3600,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print the pairing line and nothing else.")] = False,
) -> None:
    """Serve until Ctrl-C."""
    from linkqual.agent import server
    from linkqual.agent.config import AgentConfig, Caps

    server.run(
        AgentConfig(
            bind_address=bind,
            port=port,
            token=token,
            directory=directory,
            ephemeral=ephemeral,
            name=name,
            caps=Caps(max_pps, max_bytes, max_seconds),
            reflector_ports=_ports("--reflector-ports", reflector_ports),
            iperf3_ports=_ports("--iperf3-ports", iperf3_ports),
        ),
        log=_silent if quiet else _log,
        ready=_say_line if quiet else _ready,
    )


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
