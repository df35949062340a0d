"""Recount STAMP sessions from a capture of tcpdump: loss, duplicates and round trips by another's eyes and clock.

\b
Examples:
  tcpdump -i eth0 -w line.pcap -B 16384 --time-stamp-precision=nano udp
  linkqual import line.pcap
  linkqual import line.pcap --against runs/20261130T071756Z-training-clean

\b
With --against every packet the run stored is compared with the capture by its number. Exit codes:
0 the capture confirms the run (without --against: sessions were found), 1 it does not, 2 usage,
3 what the capture covers agrees, but it covers only a part of the run, 4 no such session
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from linkqual.cli.options import AsJson, say, say_json
from linkqual.errors import ExitCode, InputError, UsageError

if TYPE_CHECKING:
    from linkqual.capture import Found
    from linkqual.model import Measurement
    from linkqual.session.captured import Key
    from linkqual.session.witness import Comparison, Place

_TORN = "the run's packet file is not whole (it was killed, or the disk was full): what it lacks counts as never sent"


def run(
    file: Annotated[Path, typer.Argument(metavar="CAPTURE", help="pcap or pcapng, also gzipped.", show_default=False)],
    port: Annotated[
        int | None,
        typer.Option(
            min=1, max=65535, help="UDP port of the reflector, for senders that pad (TWAMP-Light).", show_default=False
        ),
    ] = None,
    session: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Only this session, as numbered in the answer.", show_default=False),
    ] = None,
    against: Annotated[
        Path | None, typer.Option(metavar="RUN", help="A run's folder to compare with.", show_default=False)
    ] = None,
    step: Annotated[
        str | None,
        typer.Option(metavar="STEP", help="Which step of the run. [default: its first of STAMP]", show_default=False),
    ] = None,
    at: Annotated[
        str, typer.Option(metavar="PLACE", help="Where it was captured: near (the sender), far, or between.")
    ] = "near",
    timeout: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="A later reply is a loss. [default: the run's, or 3 s]", show_default=False),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Read, recount, compare."""
    from linkqual import capture, store
    from linkqual.reports import captures
    from linkqual.session.witness import Place
    from linkqual.units import parse_duration_ns

    if at not in list(Place):
        raise UsageError(f"there is no place {at!r}", hint=f"places: {', '.join(Place)}")
    measured = _measured(against, step) if against is not None else None
    limit_ns = parse_duration_ns(timeout) if timeout is not None else _timeout_ns(measured)
    told = capture.Reading()
    found = capture.recount(file, told, limit_ns, port)
    shown = _chosen(found, session)
    answer = captures.as_json(str(file), told, shown) if as_json else {}
    if not as_json:
        say(captures.as_text(str(file), told, shown))
    code = ExitCode.PASS if shown else ExitCode.NO_DATA
    if shown and against is not None and measured is not None:
        key, done = _compared(file, shown, against, measured, Place(at), limit_ns, port)
        code = _code(done)
        name, home = measured.step.key, _home(against)
        if key is None or done is None:
            answer["against"] = None
            if not as_json:
                say(
                    [
                        "",
                        f"no session of this capture is that run's ({against}, step {name}): other packets, or another time",
                    ]
                )
        elif as_json:
            told_too = {"packets_complete": store.complete(home, name)}
            answer["against"] = captures.against_json(str(against), name, key, at, done) | told_too
        else:
            detail = captures.at_length(shown[key]) if len(shown) > 1 else ()
            torn = () if store.complete(home, name) else (_TORN,)
            say(["", *detail, *torn, *captures.against_text(str(against), name, key, at, done)])
    if as_json:
        say_json(answer)
    elif not shown:
        hint = (
            "its reflector's port may be needed: --port N" if told.packets and port is None else "see what was captured"
        )
        say(["", f"no such STAMP session in this capture ({hint})"])
    raise typer.Exit(code)


def _compared(
    file: Path,
    found: dict[Key, Found],
    run: Path,
    measured: Measurement,
    place: Place,
    timeout_ns: int,
    port: int | None,
) -> tuple[Key | None, Comparison | None]:
    """The session that is the run's; None: none is."""
    from linkqual import capture

    for key in capture.likely(found, _first_ns(measured)):
        done = capture.against(file, capture.Reading(), key, _home(run), measured, place, timeout_ns, port)
        if done is not None:
            return key, done
    return None, None


def _home(run: Path) -> Path:
    return run if os.path.isdir(run) else run.parent


def _code(done: Comparison | None) -> ExitCode:
    if done is None:
        return ExitCode.NO_DATA
    if not done.agrees:
        return ExitCode.FAIL
    return ExitCode.PASS if done.coverage is None else ExitCode.INCONCLUSIVE


def _chosen(found: dict[Key, Found], number: int | None) -> dict[Key, Found]:
    if number is None:
        return found
    return dict(list(found.items())[number - 1 : number])


def _measured(folder: Path, step: str | None) -> Measurement:
    """The step whose packets the run kept."""
    from linkqual import store

    stored = store.load(folder)
    home = _home(folder)
    steps = [taken for taken in stored.measurements if taken.stamp and store.has_packets(home, taken.step.key)]
    if step is not None:
        steps = [taken for taken in steps if taken.step.key == step]
    if not steps:
        wanted = f"no packets of a STAMP step {step!r}" if step else "no packets of a STAMP step"
        raise InputError(f"{folder} holds {wanted}", hint="give the folder of a run with its packets/")
    return steps[0]


def _timeout_ns(measured: Measurement | None) -> int:
    from linkqual import capture

    if measured is None or measured.stamp is None:
        return capture.DEFAULT_TIMEOUT_NS
    return measured.stamp.timeout_ns


def _first_ns(measured: Measurement) -> int:
    first = measured.stamp.summary.first_sent_ns if measured.stamp else None
    return measured.started_ns if first is None else first
