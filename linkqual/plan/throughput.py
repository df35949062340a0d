"""The steps of the throughput probe: how many streams, which way, for how long. Floor 2, pure."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING

from linkqual.model import Direction, Json, Step
from linkqual.plan.needs import needs
from linkqual.plan.sizes import ip_bytes
from linkqual.profile.limits import allowed_goodput_bps
from linkqual.rules import loaded
from linkqual.stats.confidence import quantile_ranks, trials_to_prove
from linkqual.units import NS_PER_S, format_count, format_packet_rate

if TYPE_CHECKING:
    from linkqual.plan.steps import Builder

SETUP_NS = NS_PER_S  # opening a server, handing over its document
BESIDE_NS = NS_PER_S  # a stream beside a load: its look at the idle line, and what is still in flight at the end
BESIDE_BYTES = 64  # UDP payload of its packets
BESIDE_SHARE = 0.01  # of the rate: what it may take from the load it watches
STREAM_SECONDS = 57_600  # of one iperf3 test: its document has a record of each stream and second, and stays readable
WAYS = (Direction.FORWARD, Direction.REVERSE)


def build(builder: Builder, settings: dict[str, Json]) -> tuple[list[Step], list[str]]:
    """The loads of both directions and why they take so long: a ladder of streams, both ways at once, another congestion control."""
    ladder = _Ladder(builder, settings)
    most = ladder.streams[-1]
    steps = []
    for streams in ladder.streams if not builder.options.quick else (most,):
        steps += [ladder.step(way, streams, judged=streams == most) for way in WAYS]
    reasons = ladder.why_so_long()
    if builder.options.quick:
        reasons.append("quick: the judged loads alone; no other number of streams, not both ways at once, no bbr")
        return steps, reasons + ladder.why_beside()
    if settings["both"]:
        steps.append(ladder.step(Direction.ROUND_TRIP, most))
    if settings["compare"] not in ("none", ladder.congestion_control):
        steps += [ladder.step(way, most, settings["compare"]) for way in WAYS]
    return steps, reasons + ladder.why_beside()


class _Ladder:
    """The loads of one plan: what they have in common."""

    def __init__(self, builder: Builder, settings: dict[str, Json]) -> None:
        self.builder, self.settings, self.options = builder, settings, builder.options
        self.streams = sorted(set(self.options.streams or settings["streams"]))
        self.pps = self._beside_pps()
        known = needs(builder.objectives, "throughput", builder.family, self.pps)
        self.wanted = [one for one in known if one.objective.metric == "throughput"]  # in seconds
        self.beside = [one for one in known if one.objective.metric in loaded.METRICS and self.pps]  # in packets
        self.fixed = self.options.duration_ns is not None or self.options.quick
        self.first, self.cap = self._seconds()

    @property
    def congestion_control(self) -> str:
        """Of what is judged."""
        return str(self.options.congestion_control or self.settings["congestion_control"])

    def _seconds(self) -> tuple[int, int]:
        """Measured seconds of a judged load: the first block, and at most."""
        cap = int(self.settings["cap_seconds"])
        if self.options.duration_ns is not None:
            seconds = max(1, self.options.duration_ns // NS_PER_S)
            return seconds, seconds
        seconds = max(self.good, self._alike())
        for need in self.beside:
            seconds = max(seconds, min(cap, math.ceil(need.good / self.pps)))
        seconds = min(seconds, cap)
        return seconds, seconds if self.options.quick else cap

    @property
    def good(self) -> int:
        """Seconds without a slow one that prove the goodput: looked at after each block, or once."""
        if not self.wanted:
            return int(self.settings["block_seconds"])
        if self.options.quick:
            return max(trials_to_prove(need.share, 0, need.objective.confidence) for need in self.wanted)
        return max(need.good for need in self.wanted)

    def _alike(self) -> int:
        """Seconds of each direction without which their medians have no interval."""
        asked = [
            one.confidence for one in self.builder.objectives if one.metric == "rate_symmetry" and one.limit is not None
        ]
        return next(n for n in count(1) if None not in quantile_ranks(n, 0.5, max(asked))) if asked else 0

    def why_so_long(self) -> list[str]:
        """The length of the judged loads, in sentences."""
        if not self.wanted or self.options.duration_ns is not None:
            return []
        need = self.wanted[0].objective
        if self.good > self.cap:
            return [
                f"throughput: {self.good} good seconds would prove the limit, the cap is {self.cap} s: it can only be refuted; "
                "raise throughput.cap"
            ]
        said = f"throughput with {self.streams[-1]} streams: {self.good} s without a slow one prove {need.statistic} at {need.confidence:.0%}"
        if self.options.quick:
            return [f"{said}, looked at once at the end (quick); a single slow second leaves it undecided"]
        return [f"{said}; at most {self.cap} s"]

    def why_beside(self) -> list[str]:
        """What runs beside the loads."""
        if not self.pps:
            return []
        sent = self.first * self.pps
        return [
            f"throughput: a STAMP stream of {format_packet_rate(self.pps)} runs beside every load: delay and loss under load, "
            "and what the load adds to the delay of each direction",
            *(
                f"throughput: {format_count(need.good)} packets beside the load would prove {need.objective.metric} under load, and "
                f"{format_count(sent)} are sent in {self.first} s: it can only be refuted"
                for need in self.beside
                if need.good > sent
            ),
        ]

    def _beside_pps(self) -> int:
        """Packets a second of the stream beside: at most a hundredth of the rate."""
        rates = [bps for way in WAYS if (bps := self._rate(way))]
        pps = int(self.settings["beside_pps"])
        bits = ip_bytes(BESIDE_BYTES, self.options.ip_version) * 8
        return max(1, min(pps, int(min(rates) * BESIDE_SHARE / bits))) if rates else pps

    def _rate(self, way: Direction) -> int:
        """What a load offers, at most; 0: not known."""
        return min(
            (bps for bps in (self.builder.link.contracted_bps(way), self.options.max_rate_bps) if bps), default=0
        )

    def step(self, way: Direction, streams: int, compare: str = "", *, judged: bool = False) -> Step:
        """One load. `compare`: with this congestion control, to be shown beside."""
        ways = WAYS if way is Direction.ROUND_TRIP else (way,)
        offered = [self._rate(one) for one in ways]
        short = int(self.settings["short_seconds"])
        first, cap = (self.first, self.cap) if judged else (short, short)
        allowed = {
            str(one): allowed_goodput_bps(self.builder.link, one, self.options.ip_version) for one in ways
        }  # fmt: skip
        params = {
            "streams": streams,
            "seconds": first,
            "block_seconds": self.settings["block_seconds"],
            "cap_seconds": cap,
            "warmup_seconds": self.settings["warmup_seconds"],
            "congestion_control": compare or self.congestion_control,
            "judged": judged,
            "fixed": self.fixed or not judged,
            "allowed_bps": allowed if len(ways) > 1 else allowed[str(way)],
            "max_rate_bps": self._held(),
            "beside_pps": self.pps,
        }
        warmups = _blocks(params) * params["warmup_seconds"]
        name = "both" if way is Direction.ROUND_TRIP else str(way)
        step = Step(
            key=f"throughput/{name}/{streams}" + (f"/{compare}" if compare else ""),
            probe="throughput",
            params=params,
            direction=way,
            duration_ns=(cap + warmups) * NS_PER_S + _blocks(params) * SETUP_NS + BESIDE_NS,
            expected_ns=(first + params["warmup_seconds"]) * NS_PER_S + SETUP_NS + BESIDE_NS,
            offered_bps=max(offered) if all(offered) else 0,
            total_bytes=sum(offered) * (cap + warmups) // 8 if all(offered) else 0,
            why=_why(way, compare, judged=judged),
        )
        longest = STREAM_SECONDS // streams
        return step if first <= longest else pulsed(replace(step, params=params | {"block_seconds": longest}), longest)

    def _held(self) -> int | None:
        """--max-rate, less what the stream beside takes of it."""
        most = self.options.max_rate_bps
        if most is None:
            return None
        return max(1, most - round(self.pps * ip_bytes(BESIDE_BYTES, self.options.ip_version) * 8))


def _why(way: Direction, compare: str, *, judged: bool) -> str:
    if judged:
        return "judged"
    if compare:
        return f"shown beside the judged one: {compare} keeps its rate where packets are lost, and so hides loss; it judges nothing"
    if way is Direction.ROUND_TRIP:
        return "shown beside the judged ones: whether both directions carry their rate at the same time"
    return "shown beside the judged one: what a single flow gets, and whether the line or the flow is the limit"


def shorten(step: Step, spare: int) -> Step:
    """The step with up to `spare` bytes of its extensions cut off; never below the seconds that prove a good line."""
    least = step.params.get("least_seconds", step.params["seconds"])
    if spare <= 0 or step.params["cap_seconds"] <= least:
        return step
    per_second = max(1, step.offered_bps // 8)
    cap = max(least, step.params["cap_seconds"] - math.ceil(spare / per_second))
    return _spanned(step, {"cap_seconds": cap})


def pulsed(step: Step, pulse_s: int) -> Step:
    """The step in blocks of at most `pulse_s` measured seconds; it still measures what its first block would have at least."""
    least = step.params.get("least_seconds", step.params["seconds"])
    first = min(step.params["seconds"], pulse_s)
    shorter = {
        "seconds": first,
        "block_seconds": min(step.params["block_seconds"], pulse_s),
        "least_seconds": least,
    }
    blocks = math.ceil(least / first)
    expected = (least + blocks * step.params["warmup_seconds"]) * NS_PER_S + blocks * SETUP_NS
    return replace(_spanned(step, shorter), expected_ns=expected)


def _spanned(step: Step, changed: dict[str, Json]) -> Step:
    """The step with other seconds, and the time and bytes that follow from them."""
    params = step.params | changed
    blocks = _blocks(params)
    most = params["cap_seconds"] + blocks * params["warmup_seconds"]
    before = step.params["cap_seconds"] + _blocks(step.params) * step.params["warmup_seconds"]
    return replace(
        step,
        params=params,
        duration_ns=most * NS_PER_S + blocks * SETUP_NS + BESIDE_NS,
        total_bytes=step.total_bytes * most // before,  # whichever directions the step loads
    )


def _blocks(params: dict[str, Json]) -> int:
    further = max(0, int(params["cap_seconds"]) - int(params["seconds"]))
    return 1 + math.ceil(further / int(params["block_seconds"]))
