"""The steps of a plan, probe by probe, with the sentences that say why. Floor 2, pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from linkqual.model import Direction, Json, Link, Objective, Step, family_size
from linkqual.plan import bursts, flows, gentle, members, mtu, narrow, search, services, throughput, trains
from linkqual.plan import sizes as sizing
from linkqual.plan.needs import needs, span_ns, why_packets
from linkqual.plan.sizes import Sizes
from linkqual.session.marking import DSCP, ECN, PACKET_BYTES, marks, wanted_values
from linkqual.units import (
    NS_PER_S,
    format_duration,
    format_packet_rate,
    format_rate,
    format_ratio,
)

if TYPE_CHECKING:
    from linkqual.plan import PlanOptions

FOREIGN_PPS = 1000
MAX_SHARE = 0.15  # of the contracted rate: a delay probe that loads the line measures itself
SETUP_NS = NS_PER_S  # opening a session, handing over its end
_FLOW_NS, _FLOW_EXPECTED_NS = (
    6 * NS_PER_S,
    2 * NS_PER_S,
)  # a further flow there and back: at most, with hops that are silent both ways
_FLOWS_OF_ONE_WAY = 5  # further flows that exclude a second way
_MOST_FLOWS = 33  # exclude a seventh way at 95 %
_TRACE_NS, _TRACE_PACKETS = 5 * NS_PER_S, 60  # of a trace that asks each hop once, at most
_Built = tuple[list[Step], list[str]]


def _ip_bytes(payload: int, ip_version: int) -> int:
    return int(sizing.ip_bytes(payload, ip_version))


@dataclass(slots=True)
class Builder:
    """Builds the steps of one plan; `objectives` have their limits resolved."""

    link: Link
    options: PlanOptions
    objectives: tuple[Objective, ...]
    family: int = field(init=False)

    def __post_init__(self) -> None:
        self.family = family_size(self.objectives)

    def build(self, probe: str, settings: dict[str, Json]) -> _Built:
        """Steps and reasons of one probe."""
        builders: dict[str, Callable[[dict[str, Json]], _Built]] = {
            "path": self._path,
            "mtu": partial(mtu.build, self),
            "members": partial(members.build, self),
            "marking": self._marking,
            "ping": self._ping,
            "stamp": self._stamp,
            "throughput": partial(throughput.build, self),
            "trains": partial(trains.build, self),
            "flows": partial(flows.build, self),
            "narrow": partial(narrow.build, self),
            "gentle": partial(gentle.build, self),
            "bursts": partial(bursts.build, self),
            "services": partial(services.build, self),
            "search": partial(search.build, self),
        }
        return builders[probe](dict(settings))

    def _rtt_ns(self) -> int | None:
        return self.link.rtt_budget_ns

    def _contracted(self) -> list[int]:
        """The contracted rates that are known."""
        return [bps for way in (Direction.FORWARD, Direction.REVERSE) if (bps := self.link.contracted_bps(way))]

    def _interval_ns(self, asked_ns: int, ip_bytes: int) -> int:
        """Between two packets: as asked, or as long as the contract and --max-rate want it."""
        most = self.options.max_rate_bps
        allowed = [*self._contracted(), *([most] if most is not None else [])]
        return max([asked_ns, *(-(-ip_bytes * 8 * NS_PER_S // bps) for bps in allowed)])

    def _path(self, settings: dict[str, Json]) -> _Built:
        if self.options.quick:
            settings["rounds"] = 1  # routers that are asked again want a second between two questions
        if not settings["flows"]:
            settings["flows"] = _MOST_FLOWS if "path" in self.options.only and not self.options.quick else 1
        hops, rounds, further = settings["max_hops"], settings["rounds"], settings["flows"] - 1
        typical = 10 * rounds * 100_000_000
        most = (hops * rounds + 1) * settings["timeout_ns"] // 4
        step = Step(
            key="path",
            probe="path",
            params=settings,
            packets=2 * hops * (rounds + further),
            duration_ns=2 * max(most, typical) + further * _FLOW_NS,
            expected_ns=2 * typical + min(further, _FLOWS_OF_ONE_WAY) * _FLOW_EXPECTED_NS,
            total_bytes=2 * hops * (rounds + further) * _ip_bytes(64, self.options.ip_version),
            why="both traces of one flow, hop by hop, before anything loads the line",
        )
        return [step], []

    def _ping(self, settings: dict[str, Json]) -> _Built:
        count = settings["count"]
        size = _ip_bytes(settings["packet_bytes"], self.options.ip_version)
        interval = self._interval_ns(settings["interval_ns"], size)
        spent = count * interval
        step = Step(
            key="ping",
            probe="ping",
            params=settings | {"interval_ns": interval},
            packets=count,
            duration_ns=spent + settings["timeout_ns"],
            expected_ns=spent,
            offered_bps=size * 8 * NS_PER_S // interval,
            total_bytes=2 * count * size,
            why="a cross-check by other means: ICMP may be treated differently, so it judges nothing",
        )
        return [step], []

    def _marking(self, settings: dict[str, Json]) -> _Built:
        asked = {name: dict.fromkeys(settings[name.lower()]) for name in (DSCP, ECN)}
        for objective in self.objectives:
            if objective.metric == "marking" and objective.limit is not None:
                asked[objective.statistic] |= dict.fromkeys(
                    wanted_values(objective.limit_text, objective.statistic) or ()
                )
        sent = marks(tuple(asked[DSCP]), tuple(asked[ECN]))
        sessions = 1 + len(asked[ECN])  # one carries all; where an ECN value does not reach the far end, another for it
        size = _ip_bytes(PACKET_BYTES, self.options.ip_version)
        interval = self._interval_ns(settings["interval_ns"], size)
        count, further = len(sent) * settings["packets"], len(asked[ECN]) * settings["packets"]
        params = settings | {"dscp": list(asked[DSCP]), "ecn": list(asked[ECN]), "interval_ns": interval}
        step = Step(
            key="marking",
            probe="marking",
            params=params,
            packets=count,
            duration_ns=(count + further) * interval + sessions * (SETUP_NS + settings["timeout_ns"]) + 2 * _TRACE_NS,
            expected_ns=count * interval + SETUP_NS,
            offered_bps=size * 8 * NS_PER_S // interval,
            total_bytes=2 * (count + further) * size + 2 * _TRACE_PACKETS * size,
            why="which DSCP and ECN values arrive, in each direction; where one does not, a trace that carries it",
        )
        return [step], []

    # ---- stamp

    def _stamp(self, settings: dict[str, Json]) -> _Built:
        options = self.options
        sizes, reasons = self._sizes(settings)
        ip_bytes = sizing.ip_bytes(sizes.mean, options.ip_version)
        rate, why = self._rate(options.rate_pps or settings["rate_pps"], ip_bytes)
        reasons += why
        timeout = settings["timeout_ns"]
        rtt = self._rtt_ns()
        if rtt is not None and timeout < 4 * rtt:
            timeout = 4 * rtt
            reasons.append(
                f"timeout raised to {format_duration(timeout)}, four round trips: a slow packet is not a lost one"
            )
        wanted = needs(self.objectives, "stamp", self.family, rate)
        cap = options.packets or settings["packets"]
        fixed = options.duration_ns is not None
        if options.duration_ns is not None:
            cap = max(1, rate * options.duration_ns // NS_PER_S)
        expected = cap if fixed else min(cap, max((need.good for need in wanted), default=cap))
        reasons += why_packets(wanted, cap, rate, fixed)
        params = settings | sizes.params
        params |= {
            "rate_pps": rate,
            "timeout_ns": timeout,
            "fixed": fixed,
            "enough": expected,  # packets that prove a good line: a line already failed is held no longer
        }
        if options.reflector:
            params |= {"far_end": "reflector", "authenticated": options.reflector_key}
        step = Step(
            key="stamp",
            probe="stamp",
            params=params,
            packets=cap,
            duration_ns=span_ns(cap, rate) + timeout + SETUP_NS,
            expected_ns=span_ns(expected, rate) + timeout + SETUP_NS,
            offered_bps=round(rate * ip_bytes * 8),
            total_bytes=round(2 * cap * ip_bytes),
            why="delay, jitter and loss against a reflector that is not ours: its own stamps, and directions as far as it numbers its replies"
            if options.reflector
            else "delay, jitter and loss of both directions in one stream, stamped by the kernels at both ends",
        )
        return [step], reasons

    def _sizes(self, settings: dict[str, Json]) -> tuple[Sizes, list[str]]:
        options = self.options
        asked = Sizes(options.packet_bytes) if options.packet_bytes else sizing.of_params(settings)
        settings.pop("mix", None)
        return sizing.chosen(
            asked,
            authenticated=options.reflector_key if options.reflector else settings["authenticated"],
            foreign=options.reflector,
            mtu=self.link.mtu,
            ip_version=options.ip_version,
        )

    def _rate(self, rate: int, ip_bytes: float) -> tuple[int, list[str]]:
        """The packet rate within `MAX_SHARE` of the line and within --max-rate."""
        contracted = self._contracted()
        reasons = []
        if self.options.reflector and self.options.rate_pps is None and rate > FOREIGN_PPS:
            rate = FOREIGN_PPS
            reasons.append(
                f"stamp sends {format_packet_rate(rate)}: a reflector that is not ours is often a router's own processor, and would drop "
                "more by itself; give --rate where it can do more"
            )
        share = min(MAX_SHARE, self.options.duty or 1.0)
        if contracted and self.options.rate_pps is None:
            fitting = max(1, int(min(contracted) * share / (ip_bytes * 8)))
            if fitting < rate:
                rate = fitting
                part = format_ratio(share) if share == MAX_SHARE else f"{format_ratio(share)}, the duty,"
                reasons.append(
                    f"stamp sends {format_packet_rate(rate)}, {part} of the contracted {format_rate(min(contracted))}: "
                    "a probe that loads the line measures itself"
                )
        if self.options.max_rate_bps is not None:
            fitting = max(1, int(self.options.max_rate_bps // (ip_bytes * 8)))
            if fitting < rate:
                rate = fitting
                reasons.append(f"stamp sends {format_packet_rate(rate)}, as --max-rate allows")
        return rate, reasons
