"""Options that several verbs share, and the two ways of answering: for people and as JSON."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated, Any

import typer

from linkqual.folding import folded

AsJson = Annotated[bool, typer.Option("--json", help="Answer with one JSON object on standard output.")]
Peer = Annotated[
    str | None,
    typer.Argument(
        help="The far end: the pairing line that `linkqual agent` printed, or HOST[:PORT]. "
        "Without it the embedded virtual line is measured.",
        show_default=False,
    ),
]
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="A run's folder, or its run.json.", show_default=False)]
ProfileName = Annotated[
    str,
    typer.Option(
        "--profile", "-p", metavar="NAME|FILE", help="The yardstick; `linkqual profiles` lists those shipped."
    ),
]
Folder = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FOLDER",
        help="Folder of this run. [default: a new one in ./runs]",
        show_default=False,
    ),
]
Zone = Annotated[
    str, typer.Option("--zone", metavar="ZONE", help="IANA time zone shown beside UTC, such as Europe/Berlin.")
]
Calibration = Annotated[
    bool,
    typer.Option(
        "--calibration/--no-calibration",
        envvar="LINKQUAL_CALIBRATION",
        help="First measure for a second what each host adds by itself.",
    ),
]
Token = Annotated[
    str | None,
    typer.Option(
        "--token", envvar="LINKQUAL_TOKEN", help="Token of the agent, if not in the pairing line.", show_default=False
    ),
]
Pin = Annotated[
    str | None,
    typer.Option(
        "--cert",
        metavar="sha256:HEX",
        help="Fingerprint of the agent's certificate, if not in the pairing line.",
        show_default=False,
    ),
]
Reflector = Annotated[
    str | None,
    typer.Option(
        "--reflector",
        metavar="HOST[:PORT]",
        help="Instead of PEER: a STAMP or TWAMP-Light reflector of others, UDP port 862 unless given. Delay, loss and the path "
        "from this end are measured; the rest needs our agent.",
        show_default=False,
    ),
]
ReflectorKey = Annotated[
    str | None,
    typer.Option(
        "--reflector-key",
        metavar="FILE|HEX",
        envvar="LINKQUAL_REFLECTOR_KEY",
        help="Key of a reflector in authenticated mode.",
        show_default=False,
    ),
]

LinkFile = Annotated[
    Path | None,
    typer.Option(
        "--link",
        metavar="FILE",
        help="A link file: name, vendor, cir, cir_reverse, rate_counts, mtu, rtt_budget, near, far, fibre, in_service, "
        "encapsulation, services, segments.",
        show_default=False,
    ),
]
Name = Annotated[str | None, typer.Option("--name", help="Name of the line.", show_default=False)]
Vendor = Annotated[str | None, typer.Option("--vendor", help="Who sells it.", show_default=False)]
Cir = Annotated[
    str | None,
    typer.Option(
        "--cir",
        metavar="RATE",
        help="Contracted rate, such as 10G or '800 Mbit/s'.",
        show_default=False,
    ),
]
CirReverse = Annotated[
    str | None,
    typer.Option(
        "--cir-reverse",
        metavar="RATE",
        help="Contracted rate back, if different.",
        show_default=False,
    ),
]
Mtu = Annotated[
    str | None,
    typer.Option("--mtu", metavar="BYTES", help="Contracted IP MTU.", show_default=False),
]
RttBudget = Annotated[
    str | None,
    typer.Option(
        "--rtt-budget",
        metavar="TIME",
        help="Contracted round trip, such as '12 ms'.",
        show_default=False,
    ),
]
NotInService = Annotated[
    bool,
    typer.Option(
        "--not-in-service",
        help="The line carries nobody else's traffic now: searches for its limit may drive it to loss.",
    ),
]

Rate = Annotated[
    str | None,
    typer.Option("--rate", metavar="PPS", help="Probe packets a second, such as 20k.", show_default=False),
]
Packets = Annotated[
    str | None,
    typer.Option("--packets", metavar="N", help="Send at most N probe packets.", show_default=False),
]
Duration = Annotated[
    str | None,
    typer.Option(
        "--duration",
        metavar="TIME",
        help="Probe for a fixed time instead of until decided.",
        show_default=False,
    ),
]
Streams = Annotated[
    str | None,
    typer.Option(
        "--streams",
        metavar="N[,N]",
        help="TCP streams of the throughput steps, such as 1,8.",
        show_default=False,
    ),
]
Quick = Annotated[
    bool,
    typer.Option(
        "--quick",
        help="Judged loads alone, for as short a time as proves their limit, looked at once: one slow second leaves it open.",
    ),
]
MaxRate = Annotated[
    str | None,
    typer.Option(
        "--max-rate", metavar="RATE", help="No step offers more than this, per direction.", show_default=False
    ),
]
MaxBytes = Annotated[
    str | None,
    typer.Option("--max-bytes", metavar="SIZE", help="The whole run sends no more than this.", show_default=False),
]
Duty = Annotated[
    str | None,
    typer.Option(
        "--duty",
        metavar="SHARE",
        help="Cut every load into pulses with silence between, so that it lasts this share of the time, such as 10%: "
        "for a line in service.",
        show_default=False,
    ),
]
ExpiringLoad = Annotated[
    bool,
    typer.Option(
        "--allow-expiring-load",
        help="Look for the narrowest hop by load that expires on routers; `linkqual plan` shows how many packets.",
    ),
]
Yes = Annotated[
    bool,
    typer.Option("--yes", "-y", help="Send what the plan says without asking, on a line in service too."),
]
Only = Annotated[
    list[str] | None,
    typer.Option(
        "--only",
        metavar="PROBE",
        help="Run only this probe (may be repeated).",
        show_default=False,
    ),
]
Skip = Annotated[
    list[str] | None,
    typer.Option(
        "--skip",
        metavar="PROBE",
        help="Leave this probe out (may be repeated).",
        show_default=False,
    ),
]
Line = Annotated[
    str | None,
    typer.Option(
        "--line",
        metavar="NAME|FILE",
        help="Which embedded line; `linkqual lab lines` lists those shipped. [default: clean]",
        show_default=False,
    ),
]


def say_json(value: Any) -> None:
    """One JSON object, readable, on standard output."""
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False, default=str))


def columns(descriptor: int = 1) -> int | None:
    """How wide the terminal behind standard output (or error, 2) is; None where there is none and no COLUMNS is set."""
    given = os.environ.get("COLUMNS", "")
    if given.isascii() and given.isdecimal() and int(given):
        return int(given)
    try:
        return os.get_terminal_size(descriptor).columns or None
    except OSError:
        return None


def say(lines: list[str] | tuple[str, ...]) -> None:
    """Lines for people on standard output, folded to their terminal."""
    for line in folded(lines, columns()):
        typer.echo(line)
