"""Profile + link + options -> what will be sent, at which rate, for how long, and why. Nothing is sent here.

Parameters of the steps, as the probes get them in `Step.params`:

| probe | keys |
| --- | --- |
| path | max_hops, rounds, timeout_ns, flows (traced there and back, at most) |
| marking | dscp and ecn (lists of numbers), packets (of each marking), interval_ns, timeout_ns |
| mtu | longest_bytes (of an IP packet), tcp_bytes (of data each way, 0: no TCP), timeout_ns, pace_bps |
| members | flows, packets (of a flow, at most), first and next (of a flow in the first round and in each after it), packet_bytes (IP), rate_bps (IP layer, all flows), max_rate_bps, traces (flows traced at most; 0: samples where flows differ) |
| ping | count, interval_ns, packet_bytes, timeout_ns |
| stamp | enough (packets that prove a good line), rate_pps, packet_bytes (UDP payload; the largest of a mix), mix (of several sizes: [[size, weight], ...]), timeout_ns, window (packets in flight; 0: what the socket buffers of both ends hold), dscp, ecn, schedule, max_burst (packets of a burst that is still the schedule's own; 0: `stats.pacing.longest_designed`), authenticated, far_end ("reflector": not our agent), fixed (length given: looked at once, at the end) |
| throughput | streams, seconds (first block), block_seconds, cap_seconds, warmup_seconds (before each block, left out), congestion_control, judged, fixed, allowed_bps (goodput the headers allow, None: unknown; by direction where both are loaded), max_rate_bps (None: no cap), beside_pps (STAMP packets a second beside the load, 0: none) |
| trains | when ("short": only where a goodput fell short, "always"), bytes (of IP packets, at most), packet_bytes (IP), counts (what rates count), fastest_bps and contracted_bps (as counted; 0: unknown), max_rate_bps (IP layer) |
| flows | when, flows (source ports in turn, a phase for each number), phase_ns, packet_bytes (IP), rate_bps (IP layer), max_rate_bps |
| narrow | bytes (of IP packets, at most), packet_bytes (IP), counts, fastest_bps and contracted_bps (as counted; 0: unknown), max_rate_bps (IP layer) |
| gentle | rounds (under load, of each hop), packet_bytes (IP), rate_bps (contracted, IP layer; 0: unknown, found by a burst), bytes (of IP packets, at most; 0: unknown), max_rate_bps (IP layer) |
| bursts | pattern, count, flows, period_ns (0: from the round trip that is found), assumed_period_ns, quiet_ns, patience_ns, repeats (share of all packets that may be sent again), source (words), and by direction packets, ip_bytes, payload_bytes, pace_bps |

Any step that loads the line may have `duty` (a share of the time: rests between its pulses, `probes.bench.rest`) and `when` ("short": only
after a load that fell short, `rules.short`); a throughput step in pulses has `least_seconds`, which it measures however short its blocks are.

All seconds are measured seconds; the warm-up comes on top. Floor 2, pure.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

from linkqual.errors import UsageError
from linkqual.metrics import METRICS
from linkqual.model import Direction, Json, Link, Objective, Plan, Profile, Step
from linkqual.plan import bursts
from linkqual.plan.bounds import bounded
from linkqual.plan.steps import Builder
from linkqual.plan.text import as_json, describe, expiring, traffic
from linkqual.profile import agreed
from linkqual.profile.limits import IDEAL, NONE, parse, resolve
from linkqual.profile.lint import rank_of
from linkqual.profile.probe_settings import defaults

WITHOUT_AGENT = (
    "path",
    "ping",
    "stamp",
    "narrow",
)  # what can be measured, if less of it, without an agent at the far end
# What explains the throughput comes after it; what loads the line in patterns of its own last.
ORDER = (
    "path",
    "mtu",
    "members",
    "marking",
    "ping",
    "stamp",
    "throughput",
    "trains",
    "flows",
    "narrow",
    "gentle",
    "bursts",
    "services",
    "search",
)


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """What the command line changes. None: as the profile says."""

    rate_pps: int | None = None
    packets: int | None = None  # cap of the stamp step
    duration_ns: int | None = None  # fixed length of every judged step instead of "until decided"
    streams: tuple[int, ...] | None = None
    packet_bytes: int | None = None
    congestion_control: str | None = None
    only: tuple[str, ...] = ()  # probes
    skip: tuple[str, ...] = ()
    max_rate_bps: int | None = None  # no step offers more than this, per direction
    max_bytes: int | None = None  # the whole plan sends no more than this, both directions
    quick: bool = False  # judged loads alone, as short as proves them, looked at once
    duty: float | None = None  # share of the time that loads may last, silence between their pulses; above 0, below 1
    expiring_load: bool = False  # on routers: the narrowest hop is looked for then, whatever the profile says
    ip_version: int = 4
    reflector: bool = False  # at the far end is no agent, but a reflector of others
    reflector_key: bool = False  # packets to it are signed


def make(profile: Profile, link: Link, options: PlanOptions | None = None) -> Plan:
    """The plan. UsageError for options that contradict each other, InputError for settings the line cannot carry."""
    options = options or PlanOptions()
    if options.packets is not None and options.duration_ns is not None:
        raise UsageError("a number of packets and a fixed length contradict each other", "give --packets or --duration")
    probes = _probes(profile, options)
    objectives, reasons = _resolve(profile, link, options, probes)
    steps: list[Step] = []
    builder = Builder(link, options, objectives)
    for name in profile.probes if options.reflector else ():
        if name not in WITHOUT_AGENT and name not in options.skip:
            reasons.append(
                f"{name} is left out: it needs our agent at the far end, and a reflector only answers probes"
            )
    for probe in ORDER:
        if probe in probes:
            built, why = builder.build(probe, probes[probe])
            steps += built
            reasons += why
    plan = Plan(profile.name, tuple(steps), objectives, link, tuple(reasons))
    return bounded(plan, options)


def red_lines(profile: Profile, link: Link) -> tuple[Objective, ...]:
    """The objectives with their limits on this line, for what is measured already: nothing is planned, so nothing is refused."""
    return _resolve(profile, link, PlanOptions(), profile.probes)[0]


def _probes(profile: Profile, options: PlanOptions) -> dict[str, dict[str, Json]]:
    asked = dict(profile.probes)
    if options.expiring_load or "narrow" in options.only:  # without consent its builder says what is missing
        asked.setdefault("narrow", defaults("narrow"))
    if "gentle" in options.only:
        asked.setdefault("gentle", defaults("gentle"))
    for word in (*options.only, *options.skip):
        if word not in ORDER:
            raise UsageError(f"no probe is called {word!r}", f"probes: {', '.join(ORDER)}")
        if word in options.only and word not in asked:
            raise UsageError(f"profile {profile.name!r} does not use the probe {word!r}", f"it uses {', '.join(asked)}")
    if both := set(options.only) & set(options.skip):
        raise UsageError(f"{', '.join(sorted(both))} is both asked for and skipped", "give --only or --skip")
    if options.reflector and (unable := [name for name in options.only if name not in WITHOUT_AGENT]):
        raise UsageError(
            f"{unable[0]} needs our agent at the far end", "give the agent's pairing line instead of --reflector"
        )
    if options.reflector and profile.probes.get("stamp", {}).get("authenticated") and not options.reflector_key:
        raise UsageError(
            f"profile {profile.name!r} asks for authenticated packets", "give the reflector's key with --reflector-key"
        )
    chosen = {
        name: settings
        for name, settings in asked.items()
        if name not in options.skip
        and (not options.only or name in options.only)
        and (not options.reflector or name in WITHOUT_AGENT)
    }
    if not chosen:
        raise UsageError("nothing is left to measure", f"profile {profile.name!r} uses {', '.join(asked)}")
    return chosen


def _resolve(
    profile: Profile, link: Link, options: PlanOptions, probes: dict[str, dict[str, Json]]
) -> tuple[tuple[Objective, ...], list[str]]:
    """The objectives with their limits on this line, and the sentences that say how."""
    found: list[Objective] = []
    unrun: dict[str, int] = {}  # red lines of each probe that does not run
    reasons: dict[str, None] = {}  # an ordered set: forward and reverse often say the same
    for objective in profile.objectives:
        metric = METRICS[objective.metric]
        limit = parse(objective.limit_text or NONE, metric.unit)
        if limit.fact == agreed.AGREED:
            value, why = agreed.resolve(limit, objective, link)
        else:
            ideal = (
                bursts.ideal_ns(probes["bursts"], link, options, objective.direction) if "bursts" in probes else None
            )
            value, why = resolve(limit, link, objective.direction, options.ip_version, ideal)
        if value is None and limit.text == NONE:
            why = f"{objective.metric} {objective.statistic}: measured and shown, the profile sets no limit"
        if metric.probe not in probes:
            unrun[metric.probe] = unrun.get(metric.probe, 0) + 1
            why = ""
        capped = options.max_rate_bps
        if metric.name == "throughput" and value is not None and capped is not None and capped < value / 0.9:
            value, why = (
                None,
                "throughput: the rate is capped below what the limit asks, so it is measured and not judged",
            )
        if limit.fact == IDEAL and value is not None and capped and _below_contract(capped, link, objective.direction):
            value, why = (
                None,
                "burst_completion: the rate is capped below the contracted one, so it is measured and not judged",
            )
        if why:
            reasons[why] = None
        found.append(replace(objective, limit=value))
    return tuple(found), [*reasons, *_no_data(unrun), *_falling(found)]


def _no_data(unrun: dict[str, int]) -> list[str]:
    """What follows from probes that do not run, in one sentence."""
    if not unrun:
        return []
    count = sum(unrun.values())
    lines = f"{count} red lines" if count > 1 else "one red line"
    return [f"{', '.join(unrun)} {'are' if len(unrun) > 1 else 'is'} not run, so there will be no data of {lines}"]


def _below_contract(cap_bps: int, link: Link, direction: Direction) -> bool:
    """Whether a cap at the IP layer holds bursts below what the contract allows."""
    rate = link.contracted_bps(direction) or 0
    return cap_bps < rate * bursts.ip_share(link)


def _falling(objectives: list[Objective]) -> list[str]:
    """Limits that fall while the quantile rises, once the facts of the line are in: the lower one then decides alone."""
    notes = []
    groups: dict[tuple[str, Direction], list[Objective]] = {}
    for one in objectives:
        if one.limit is not None and rank_of(one.statistic) is not None:
            groups.setdefault((one.metric, one.direction), []).append(one)
    for group in groups.values():
        for low, high in pairwise(sorted(group, key=lambda one: rank_of(one.statistic) or 0.0)):
            if (high.limit or 0) < (low.limit or 0):
                notes.append(
                    f"on this line the limit of {high.key} ({high.limit_text}) lies below that of {low.statistic} ({low.limit_text})"
                )
    return notes


__all__ = ["PlanOptions", "as_json", "describe", "expiring", "make", "red_lines", "traffic"]
