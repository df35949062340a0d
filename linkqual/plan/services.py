"""The steps of a service activation test: what is offered of which service, for how long, and why (ITU-T Y.1564). Floor 2, pure."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from linkqual.errors import InputError, UsageError
from linkqual.model import Direction, Json, Link, Objective, Service, Step
from linkqual.plan.sizes import ip_bytes
from linkqual.profile.agreed import criterion
from linkqual.session import activation
from linkqual.session.activation import Rung, Stream
from linkqual.stats.confidence import trials_to_prove
from linkqual.stats.throughput import OVERHEAD_BYTES
from linkqual.units import NS_PER_S, format_count, format_duration, format_rate, format_ratio

if TYPE_CHECKING:
    from linkqual.plan import PlanOptions
    from linkqual.plan.steps import Builder

Built = tuple[list[Step], list[str]]
Round = list[Rung]  # what is sent at the same time

WAYS = (Direction.FORWARD, Direction.REVERSE)
STEP_NS, LONGEST_STEP_NS = 10 * NS_PER_S, 3600 * NS_PER_S  # the usual step, and the most that "auto" makes of it
SETUP_NS = 2 * NS_PER_S  # of a round: opening sockets, a stream, waiting for stragglers
STREAM_PAYLOAD = 64
STREAM_SHARE = 0.05  # of the CIR at most: the stream is part of the service, and must not be much of it
LEAST_PPS = 1
_ROUNDED = 1 + 1e-9  # a rate counted anew is not exact
LEAST_IPV6 = 66  # the load's own header in UDP and IPv6
LEAST_PERFORMANCE_NS = 60 * NS_PER_S  # bytes saved on it leave this much


def build(builder: Builder, settings: dict[str, Json]) -> Built:
    """The configuration test of every service, then all of them together. UsageError when no rate is known."""
    services = activation.services_of(builder.link)
    if not services:
        raise UsageError(
            "what the services carry is not known",
            "give --cir for the line as one service, or --link with a file that has services",
        )
    _check_sizes(services, builder.options.ip_version)
    reasons = [*_named(services, builder), *_beyond(services, builder.link)]
    streams = {one.name: _stream(one, settings["stream_pps"], builder.options.ip_version) for one in services}
    rounds, why = _configuration(builder, settings, services, streams)
    reasons += why
    steps = [_step(f"services/configuration{_suffix(way)}", one, way) for way, one in rounds.items() if one]
    full, why = _performance(builder, settings, services, streams)
    return [*steps, *full], [*reasons, *why]


def _named(services: tuple[Service, ...], builder: Builder) -> list[str]:
    if builder.link.services:
        return []
    (line,) = services
    size = line.sizes[0][0] + OVERHEAD_BYTES["l2"]
    return [
        f"services: the link file names none, so the line is tested as one, at its CIR with frames of {size} octets"
    ]


def _beyond(services: tuple[Service, ...], link: Link) -> list[str]:
    """One remark where what the services are granted has no room in the contracted rate of the line, as that rate counts."""
    over = []
    for way in WAYS:
        contracted = link.contracted_bps(way)
        if contracted is None:
            continue
        granted = [(one.name, one.committed_bps(way), one.eir_bps, _recounted(one, link)) for one in services]
        asked = [(f"{name} {way} CIR + EIR", (cir + eir) * factor) for name, cir, eir, factor in granted]
        asked.append((f"all CIRs {way}", sum(cir * factor for _, cir, _, factor in granted)))
        over += [
            f"{what} {format_rate(bps)} of {format_rate(contracted)}"
            for what, bps in asked
            if bps > _ROUNDED * contracted
        ]
    if not over:
        return []
    return [
        f"services: more is asked for than the line's contracted rate: {', '.join(over)}; a line that keeps its contract may cut what "
        "exceeds it, so compare the rates in the link file with the contract"
    ]


def _recounted(service: Service, link: Link) -> float:
    """By which a rate of the service is multiplied so that it counts what the line's rate does."""
    shares = [activation.ip_share(service.sizes, counts) for counts in (service.counts, link.rate_counts)]
    return shares[0] / shares[1]


def _check_sizes(services: tuple[Service, ...], ip_version: int) -> None:
    for service in services:
        smallest = min(size for size, _ in service.sizes)
        if ip_version == 6 and smallest < LEAST_IPV6:
            raise InputError(
                f"service {service.name!r}: a frame of {smallest + OVERHEAD_BYTES['l2']} octets has no room for the load over IPv6",
                f"frames of at least {LEAST_IPV6 + OVERHEAD_BYTES['l2']} octets",
                "services",
            )


def _stream(service: Service, pps: int, ip_version: int) -> Stream:
    """A twentieth of the smaller CIR at most."""
    size = int(ip_bytes(STREAM_PAYLOAD, ip_version))
    room = STREAM_SHARE * min(service.committed_bps(way) for way in WAYS)
    each = (size + OVERHEAD_BYTES[service.counts]) * 8
    return Stream(max(LEAST_PPS, min(pps, int(room / each))), STREAM_PAYLOAD, size)


# ---- configuration test


def _configuration(
    builder: Builder, settings: dict[str, Json], services: tuple[Service, ...], streams: dict[str, Stream]
) -> tuple[dict[Direction, list[Round]], list[str]]:
    """By direction, or both at once (round trip): the rounds in order."""
    reasons: dict[str, None] = {}
    ladders: dict[Direction, list[Rung]] = {way: [] for way in WAYS}
    for service in services:
        for way in WAYS:
            lengths, why = _lengths(builder, settings, service, way, streams[service.name])
            reasons |= dict.fromkeys(why)
            ladders[way] += activation.configuration(
                service, way, settings["shares"], streams[service.name], lengths, overshoot=settings["overshoot"]
            )
    allowed, why = _allowed(ladders, builder.options)
    reasons |= dict.fromkeys(why)
    if settings["directions"] == "each":
        return {way: [[rung] for rung in rungs] for way, rungs in allowed.items()}, list(reasons)
    pairs: dict[tuple[str, str], Round] = {}
    for rungs in allowed.values():
        for rung in rungs:
            pairs.setdefault((rung.service, rung.title), []).append(rung)
    return {Direction.ROUND_TRIP: list(pairs.values())}, list(reasons)


def _allowed(
    ladders: dict[Direction, list[Rung]], options: PlanOptions
) -> tuple[dict[Direction, list[Rung]], list[str]]:
    """Without what --max-rate forbids."""
    most = options.max_rate_bps
    if most is None:
        return ladders, []
    out = [rung for rungs in ladders.values() for rung in rungs if rung.ip_bps > most]
    names = ", ".join(dict.fromkeys(f"{rung.service} {rung.title}" for rung in out))
    reasons = [f"services: left out, as --max-rate allows no more than {format_rate(most)}: {names}"] if out else []
    return {way: [rung for rung in rungs if rung.ip_bps <= most] for way, rungs in ladders.items()}, reasons


def _lengths(
    builder: Builder, settings: dict[str, Json], service: Service, way: Direction, stream: Stream
) -> tuple[dict[float, int], list[str]]:
    """How long each share of the CIR is offered, and what a proof of the frame loss takes."""
    shares, given = settings["shares"], settings["step_ns"]
    objective = _loss(builder, way)
    limit = criterion(objective, service) if objective is not None else None
    usual = dict.fromkeys(shares, given or STEP_NS)
    if objective is None or limit is None:
        return usual, []
    frames = trials_to_prove(limit, 0, objective.confidence)
    needed = {share: _span_ns(service, way, share, stream, frames) for share in shares}
    least, most = needed[max(shares)], needed[min(shares)]
    said = (
        f"services: a frame loss of at most {format_ratio(limit)} is proven by {format_count(frames)} frames without a loss: of {service.name} "
        f"{way} {format_duration(least)} at {format_ratio(max(shares))} of the CIR, {format_duration(most)} at {format_ratio(min(shares))}"
    )
    if given:
        short = [share for share in shares if given < needed[share]]
        if short:
            said += f"; steps of {format_duration(given)} leave {', '.join(map(format_ratio, short))} undecided, step: auto makes them long enough"
        return usual, [said]
    cut = [share for share in shares if needed[share] > LONGEST_STEP_NS]
    if cut:
        said += f"; no step lasts longer than {format_duration(LONGEST_STEP_NS)}, so {', '.join(map(format_ratio, cut))} stay undecided"
    return {share: min(max(STEP_NS, needed[share]), LONGEST_STEP_NS) for share in shares}, [said]


def _loss(builder: Builder, way: Direction) -> Objective | None:
    wanted = (one for one in builder.objectives if one.metric == "frame_loss_ratio" and one.direction is way)
    return next(wanted, None)


def _span_ns(service: Service, way: Direction, share: float, stream: Stream, frames: int) -> int:
    """Until so many frames of the load have left, in whole seconds and one more for the edges."""
    (rung,) = activation.configuration(service, way, (share,), stream, {share: NS_PER_S}, overshoot=False)[:1]
    pps = rung.load_bps / (8 * rung.phase.mean_bytes)
    return (math.ceil(frames / pps) + 1) * NS_PER_S


# ---- performance test


def _performance(
    builder: Builder, settings: dict[str, Json], services: tuple[Service, ...], streams: dict[str, Stream]
) -> Built:
    length = builder.options.duration_ns or settings["performance_ns"]
    if not settings["performance_ns"]:
        return [], []
    options = builder.options
    together = [activation.performance(one, way, streams[one.name], length) for one in services for way in WAYS]
    if options.duty is not None and options.duty < 1:
        return [], [
            "services: the performance test is left out, since it offers the CIR all the time and a duty was given"
        ]
    step = _step("services/performance", [together], Direction.ROUND_TRIP)
    if options.max_rate_bps is not None and step.offered_bps > options.max_rate_bps:
        return [], [
            f"services: the performance test is left out, as --max-rate allows no more than {format_rate(options.max_rate_bps)}"
        ]
    return [step], []


# ---- steps


def _suffix(way: Direction) -> str:
    return "" if way is Direction.ROUND_TRIP else f"/{way}"


def _step(key: str, rounds: list[Round], way: Direction) -> Step:
    """`total_bytes`: the loads, and their streams there and back."""
    spent = sum(max(rung.duration_ns for rung in one) + SETUP_NS for one in rounds)
    every = [rung for one in rounds for rung in one]
    echoed = sum(rung.stream.ip_bps * rung.duration_ns // (8 * NS_PER_S) for rung in every)
    names = ", ".join(dict.fromkeys(rung.service for rung in every))
    alone = (
        "all services at their CIR at once, both directions"
        if key.endswith("performance")
        else f"one service after the other: {names}"
    )
    return Step(
        key=key,
        probe="services",
        params={"rounds": [[rung.as_json() for rung in one] for one in rounds]},
        direction=way,
        packets=round(sum(rung.load_bps * rung.duration_ns / (8 * NS_PER_S * rung.phase.mean_bytes) for rung in every)),
        duration_ns=spent,
        expected_ns=spent,
        offered_bps=max(_peak(one) for one in rounds),
        total_bytes=sum(rung.total_bytes for rung in every) + echoed,
        why=f"UDP, {alone}",
    )


def _peak(one: Round) -> int:
    """Of the more loaded direction, IP layer."""
    return max(sum(rung.ip_bps for rung in one if rung.direction is way) for way in WAYS)


def rounds_of(step: Step) -> list[Round]:
    """What a planned step sends, in order."""
    return [[activation.of_json(rung) for rung in one] for one in step.params["rounds"]]


def shorten(step: Step, spare: int) -> Step:
    """A performance test with up to `spare` bytes cut off its end, a minute left at least; steps of the configuration test stay."""
    if not step.key.endswith("performance") or spare <= 0:
        return step
    (together,) = rounds_of(step)
    length = together[0].duration_ns
    left = max(min(length, LEAST_PERFORMANCE_NS), math.floor(length * (1 - spare / step.total_bytes)))
    shorter = _step(step.key, [[replace(rung, duration_ns=left) for rung in together]], step.direction)
    return replace(shorter, params=step.params | shorter.params)
