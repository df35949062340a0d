"""What `test`, `measure` and `plan` share: read what was asked, find or make the far end, carry out, tell the result."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from linkqual.cli import consent, read, reflecting
from linkqual.cli.ends import Ends, with_agent, without_agent
from linkqual.cli.signals import Gently
from linkqual.errors import ExitCode, HostError, InputError, UsageError
from linkqual.model import Outcome

if TYPE_CHECKING:
    from linkqual.cli.reflecting import Foreign
    from linkqual.lab.line import Line
    from linkqual.live import Live
    from linkqual.model import HostFloor, Link, Plan, Profile, Qualification
    from linkqual.net.control import Control
    from linkqual.plan import PlanOptions
    from linkqual.store import Run

DEFAULT_LINE = "clean"
# Of both ends of an embedded line whose pumps have no real-time priority: kernel stamps forgive them a late wake-up, while the line itself cannot be late.
_NICENESS = 5
EXIT_CODES = {
    Outcome.PASS: ExitCode.PASS,
    Outcome.FAIL: ExitCode.FAIL,
    Outcome.INCONCLUSIVE: ExitCode.INCONCLUSIVE,
    Outcome.NO_DATA: ExitCode.NO_DATA,
    Outcome.NOT_JUDGED: ExitCode.NO_DATA,
}


@dataclass(frozen=True, slots=True)
class Asked:
    """The command line, as typed."""

    peer: str | None
    profile: str
    line: str | None = None
    link: Path | None = None
    link_facts: tuple[tuple[str, str | None], ...] = ()
    token: str | None = None
    cert: str | None = None
    reflector: str | None = None
    reflector_key: str | None = None
    rate: str | None = None
    packets: str | None = None
    duration: str | None = None
    streams: str | None = None
    quick: bool = False
    max_rate: str | None = None
    max_bytes: str | None = None
    duty: str | None = None
    allow_expiring_load: bool = False
    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    output: Path | None = None
    zone: str = "UTC"
    as_json: bool = False
    calibration: bool = True
    yes: bool = False


@dataclass(frozen=True, slots=True)
class Prepared:
    """The command line, understood: everything that can be wrong without a packet sent has been found."""

    profile: Profile
    link: Link
    plan: Plan
    line: Line | None  # the embedded line, without a peer
    foreign: Foreign | None = None  # the reflector of others, instead of an agent


def prepare(asked: Asked) -> Prepared:
    """Read profile, line and link, and make the plan. Raises UsageError or InputError."""
    from linkqual import plan as planner

    if asked.peer is not None and asked.line is not None:
        raise UsageError("--line chooses an embedded line, but a peer is given too", hint="leave out one of them")
    if asked.reflector is not None and (asked.peer is not None or asked.line is not None):
        other = "a peer" if asked.peer is not None else "an embedded line"
        raise UsageError(f"--reflector names the far end, but {other} is given too", hint="leave out one of them")
    read.zone(asked.zone)
    foreign = reflecting.read(asked.reflector, asked.reflector_key)
    profile = read.profile(asked.profile)
    line = read.line(asked.line or DEFAULT_LINE) if asked.peer is None and foreign is None else None
    link = read.link(asked.link, line.link if line else None, **dict(asked.link_facts))
    if line is not None and link.in_service is None:
        link = replace(link, in_service=False)  # an embedded line carries nothing but this run
    return Prepared(profile, link, planner.make(profile, link, options(asked, foreign)), line, foreign)


def options(asked: Asked, foreign: Foreign | None = None) -> PlanOptions:
    """What the command line changes in the plan."""
    from linkqual import units
    from linkqual.plan import PlanOptions
    from linkqual.plan.bounds import read_duty
    from linkqual.profile.probe_settings import read_stamp_rate

    return PlanOptions(
        rate_pps=_given("--rate", asked.rate, read_stamp_rate),
        packets=_given("--packets", asked.packets, _packets),
        duration_ns=_given("--duration", asked.duration, units.parse_duration_ns),
        streams=_given("--streams", asked.streams, _streams),
        quick=asked.quick,
        max_rate_bps=_given("--max-rate", asked.max_rate, units.parse_rate_bps),
        max_bytes=_given("--max-bytes", asked.max_bytes, units.parse_size_bytes),
        duty=_given("--duty", asked.duty, read_duty),
        expiring_load=asked.allow_expiring_load,
        only=asked.only,
        skip=asked.skip,
        ip_version=6 if _is_v6(foreign.host if foreign else _host(asked.peer)) else 4,
        reflector=foreign is not None,
        reflector_key=bool(foreign and foreign.key),
    )


def _given(option: str, value: str | None, parse: Callable[[str], Any]) -> Any:
    """The value of an option, or None. UsageError names the option."""
    if value is None:
        return None
    try:
        number = parse(value)
    except InputError as error:
        raise UsageError(f"{option}: {error.message}", hint=error.hint) from error
    if number == 0:
        raise UsageError(f"{option}: {value!r} is nothing", hint="give more than 0")
    return number


def count(option: str, value: str) -> int:
    """ "2M", "400k", "1000000": a number above 0. UsageError names the option."""
    from linkqual.units import parse_packet_rate

    number: int = _given(option, value, _packets if option == "--packets" else parse_packet_rate)
    return number


def _packets(text: object) -> int:
    from linkqual.units import parse_packet_rate

    try:
        return parse_packet_rate(text)
    except InputError:
        raise InputError(f"{text!r} is no number of packets", hint="write it like 2M, 400k or 1000000") from None


def _streams(text: object) -> tuple[int, ...]:
    parts = str(text).split(",")
    if not all(part.strip().isdecimal() and 1 <= int(part) <= 128 for part in parts):
        raise InputError(f"{text!r} is no list of streams", hint="write it like 8 or 1,8; each between 1 and 128")
    return tuple(dict.fromkeys(int(part) for part in parts))


def _host(peer: str | None) -> str:
    from linkqual.wire.pairing import Peer

    return Peer.parse(peer).host if peer is not None else ""


def _is_v6(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).version == 6
    except ValueError:
        return False


def carry_out(asked: Asked, *, judged: bool) -> int:
    """Measure what was asked and tell the result; returns the exit code."""
    asked = _ask_about_expiring(asked)
    prepared = prepare(asked)
    if prepared.line is None and not asked.yes:
        consent.ask(prepared.plan)
    if prepared.foreign is not None:
        return _measure(asked, prepared, without_agent(prepared.foreign), judged=judged)
    if prepared.line is None:
        from linkqual.net.control import Control, Peer

        assert asked.peer is not None
        peer = Peer.parse(asked.peer, asked.token, asked.cert)
        with contextlib.closing(Control.connect(peer)) as control:
            return _measure(asked, prepared, with_agent(control, peer.name), judged=judged)
    from linkqual.lab.isolate import run_isolated

    return run_isolated(lambda: _embedded(asked, prepared, judged=judged))


def _ask_about_expiring(asked: Asked) -> Asked:
    """With the consent of somebody at the terminal, where the narrowest hop is looked for and no option speaks of it."""
    if asked.allow_expiring_load or asked.yes or asked.peer is None or not consent.at_terminal():
        return asked
    wanted = prepare(replace(asked, allow_expiring_load=True))
    listed = "narrow" in asked.only or "narrow" in wanted.profile.probes
    planned = any(step.probe == "narrow" for step in wanted.plan.steps)
    return replace(asked, allow_expiring_load=listed and planned and consent.expiring(wanted.plan))


def _embedded(asked: Asked, prepared: Prepared, *, judged: bool) -> int:
    """Inside the isolation: build the line, start an agent at its far end, measure from its near end."""
    from linkqual.lab.network import VirtualLine
    from linkqual.net import clock
    from linkqual.net.control import Control, Peer

    line = prepared.line
    assert line is not None
    with VirtualLine(line) as network:
        if not clock.realtime_allowed():  # neither are the pumps'
            clock.stand_back(_NICENESS)
        try:
            agent = network.popen(network.far, _agent(network.address(network.far)), stdout=subprocess.PIPE, text=True)
        except OSError as error:  # this Python lies where the line's nodes may not look
            said = f"the agent of the embedded line cannot be started: {sys.executable}: {error.strerror}"
            raise HostError(said, hint="install linkqual where every user may read it") from error
        pairing = agent.stdout.readline() if agent.stdout else ""
        if not pairing:
            raise HostError("the agent of the embedded line did not start", hint="run `linkqual doctor`")
        network.enter(network.near)
        with contextlib.closing(Control.connect(Peer.parse(pairing))) as control:
            ends = with_agent(control, f"embedded line {line.name}")
            return _measure(asked, prepared, ends, judged=judged, truth=network.truth)


def _agent(address: str) -> list[str]:
    return [sys.executable, "-P", "-m", "linkqual", "agent", "--ephemeral", "--bind", address, "--quiet"]


def _measure(
    asked: Asked,
    prepared: Prepared,
    ends: Ends,
    *,
    judged: bool,
    truth: Callable[[], dict[str, Any]] = dict,
) -> int:
    from linkqual import document, runner, store
    from linkqual import plan as planner
    from linkqual.live import Live
    from linkqual.model import family_size
    from linkqual.probes.bench import Bench

    plan = prepared.plan
    name = prepared.line.name if prepared.line else prepared.link.name
    folder = asked.output or store.default_folder(Path("runs"), time.time_ns(), plan.profile, name)
    run = store.Run(folder)
    request = runner.Request(
        prepared.profile, plan, ends.name, prepared.line.name if prepared.line else None, asked.zone, judged
    )
    with Gently() as interrupted, Live(sys.stderr) as live:
        for line in [*planner.traffic(plan), *planner.expiring(plan)]:
            live.say(f"  {line}")
        near_floor, far_floor = _floors(ends.control, live, interrupted) if asked.calibration else (None, None)
        bench = Bench(
            peer_address=ends.peer_address,
            near_address=ends.near_address,
            family=socket.AF_INET6 if ":" in ends.peer_address else socket.AF_INET,
            control=ends.control,
            reflector=ends.reflector,
            objectives=plan.objectives,
            link=plan.link,
            family_size=family_size(plan.objectives),
            near_floor=near_floor,
            far_floor=far_floor,
            save_raw=run.save_raw,
            save_packets=run.save_packets,
            progress=live.update,
            interrupted=lambda: bool(interrupted()),
        )
        done = runner.qualify(
            request, bench, run, interrupted=interrupted, begin=lambda step: live.phase(step.key), truth=truth
        )
        run.write_document(document.dump(done))
        report = _write_report(done, run) if judged else None
    tell(done, as_json=asked.as_json, files=[run.folder / store.DOCUMENT, *([report] if report else [])])
    return exit_code(done, interrupted.signal)


def _floors(control: Control | None, live: Live, interrupted: Gently) -> tuple[HostFloor, HostFloor | None]:
    from linkqual import calibration
    from linkqual.rules import exactness

    live.phase("calibration: what the hosts add by themselves")
    floors = calibration.of_both_ends(control, lambda: bool(interrupted()))
    live.say(f"  {exactness.floor_words(floors[0])}")
    return floors


def _write_report(done: Qualification, run: Run) -> Path:
    from linkqual.reports import html

    return run.write_report(html.render(done))


def tell(done: Qualification, *, as_json: bool, files: list[Path]) -> None:
    """The document as JSON, or the closing table and where the files are."""
    from linkqual import document
    from linkqual.reports import terminal

    if as_json:
        typer.echo(document.dump(done), nl=False)
        return
    width = shutil.get_terminal_size((100, 24)).columns
    unicode = terminal.shows_unicode(sys.stdout.encoding)
    typer.echo(terminal.render(done, width=width, color=colours(), unicode=unicode), nl=False)
    for file in files:
        typer.echo(str(file))


def colours() -> bool:
    """Whether standard output is a terminal that wants colour (https://no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def exit_code(done: Qualification, signal: int = 0) -> int:
    """From the verdict; without one, whether everything could be measured; 128 + the signal that ended the run early."""
    if signal:
        return 128 + signal
    if done.verdict is None:
        return ExitCode.NO_DATA if any(taken.fault for taken in done.measurements) else ExitCode.PASS
    return EXIT_CODES[done.verdict.outcome]
