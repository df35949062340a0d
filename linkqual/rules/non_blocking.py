"""Does the line block RoCE: marking, packet size, and oversubscription as far as it shows. Floor 2, pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from linkqual.model import Diagnosis, Direction, Finding, Measurement, Outcome, Plan, ThroughputResult
from linkqual.profile.limits import ASSUMED_MTU
from linkqual.rules import ends, loads, narrow, seconds
from linkqual.rules.beside import CONFIDENCE, Beside
from linkqual.rules.looks import (
    FAIL,
    NO_FLOWS,
    NO_SIZES,
    NOT_MEASURED,
    PASS,
    UNKNOWN,
    WAYS,
    Look,
    group_words,
    groups,
    known_sizes,
    unseen,
)
from linkqual.rules.rates_beside import LESS, SHARED
from linkqual.session.marking import DSCP, ECN, survivals
from linkqual.session.symmetry import SYMMETRIC
from linkqual.stats import throughput
from linkqual.units import format_rate, format_ratio
from linkqual.wire.codepoints import dscp_name, ecn_name

RDMA_HEADERS = 60  # IPv4 20, UDP 8, BTH 12, RETH 16, ICRC 4 around the data of a RoCEv2 packet
RDMA_MTUS = (4096, 2048, 1024, 512, 256)


def looks(
    plan: Plan,
    measurements: Sequence[Measurement],
    besides: Mapping[str, Beside],
    findings: Sequence[Finding],
    diagnoses: Sequence[Diagnosis],
) -> Iterator[Look]:
    """Marking, packet size, and oversubscription as far as it shows: rates alone and together, single paths, bursts."""
    yield from _markings(measurements)
    yield _fits(plan, measurements)
    yield from (_rate(plan, measurements, way, diagnoses) for way in WAYS)
    yield from _narrowest(plan, measurements)
    yield _together(besides.get("both at once"), measurements)
    yield _crowded(measurements)
    bursts = [one for one in findings if one.objective.metric == "burst_completion" and one.objective.limit is not None]
    for one in bursts:
        outcome = {Outcome.PASS: PASS, Outcome.FAIL: FAIL}.get(one.outcome, UNKNOWN)
        what = f"bursts {one.objective.direction}"
        if one.outcome is Outcome.NO_DATA:
            yield unseen(what, "bursts", one.because, measurements)
        else:
            yield Look(what, outcome, one.because, one.decide)


def _markings(measurements: Sequence[Measurement]) -> Iterator[Look]:
    result = next((one.marking for one in measurements if one.marking is not None), None)
    if result is None:
        yield unseen("marking", "marking", NOT_MEASURED, measurements)
        return
    for statistic, name in ((DSCP, dscp_name), (ECN, ecn_name)):
        found = [(way, one) for way in WAYS for one in survivals(result.rows, way, statistic)]
        changed = [f"{name(one.value)} {way}" for way, one in found if one.changed]
        silent = [f"{name(one.value)} {way}" for way, one in found if not one.arrived]
        if changed:
            yield Look(
                statistic,
                FAIL,
                f"changed: {', '.join(changed)}",
                "have the carrier keep it, or classify anew at the hand-over",
            )
        elif silent or {way for way, _ in found} != set(WAYS):
            yield Look(
                statistic,
                UNKNOWN,
                f"nothing is known of {', '.join(silent) or 'a direction'}",
                "a line and hosts that bring them",
            )
        else:
            values = ", ".join(dict.fromkeys(name(one.value) for _, one in found))
            yield Look(statistic, PASS, f"kept both ways: {values}")


def _fits(plan: Plan, measurements: Sequence[Measurement]) -> Look:
    """Whether packets as long as agreed pass both ways; and which RDMA MTU fits into what passes."""
    asked = plan.link.mtu or ASSUMED_MTU
    ways = known_sizes(measurements)
    if ways is None:
        return unseen("packet size", "mtu", NO_SIZES, measurements)
    least = min(ways, key=lambda way: way.passes or 0)
    passes = least.passes or 0
    fitting = next((size for size in RDMA_MTUS if size + RDMA_HEADERS <= passes), None)
    said = f"{passes} bytes pass both ways, {asked} are {'agreed' if plan.link.mtu else 'usual'}"
    said += f"; the RDMA MTU that fits is {fitting}" if fitting else ""
    if passes >= asked:
        return Look("packet size", PASS, said)
    if least.fails is not None and least.fails <= asked:
        return Look("packet size", FAIL, said, f"an MTU of {asked} bytes along the whole way {least.direction}")
    return Look("packet size", UNKNOWN, said, "hosts whose interfaces take packets that long")


def _rate(plan: Plan, measurements: Sequence[Measurement], way: Direction, diagnoses: Sequence[Diagnosis]) -> Look:
    """One direction alone, against what the headers leave of its contracted rate."""
    what, load = f"goodput {way}", seconds.heaviest(measurements, way)
    result = load.throughput if load is not None else None
    if load is None or result is None or not result.receiver_bps:
        return unseen(what, "throughput", NOT_MEASURED, measurements)
    allowed = result.allowed_bps
    if not allowed or plan.link.contracted_bps(way) is None:
        return Look(
            what,
            UNKNOWN,
            f"{format_rate(loads.median(result))}, and what is contracted is not known",
            "the contracted rate (--cir)",
        )
    return _against(what, result, allowed, ends.holding(load, way, diagnoses))


def _narrowest(plan: Plan, measurements: Sequence[Measurement]) -> Iterator[Look]:
    """A hop that carries less than is contracted blocks; one that carries as much proves nothing of what flows share."""
    for one in measurements:
        said = narrow.below_contract(plan, one.narrow) if one.narrow is not None else ""
        if said and one.narrow is not None:
            sure = one.narrow.confidence == "high"
            settle = "" if sure else "the search for the narrowest hop once more, at a quieter time"
            yield Look(f"narrowest hop {one.narrow.direction}", FAIL if sure else UNKNOWN, said, settle)


def _against(what: str, result: ThroughputResult, allowed: float, held: tuple[str, str]) -> Look:
    share = loads.median(result) / allowed
    said = f"{format_rate(loads.median(result))}, {format_ratio(min(share, 1.0))} of what the headers leave of the contract"
    least, most = throughput.seconds_interval(result.receiver_bps, 0.5, CONFIDENCE)
    if least is not None and least >= LESS * allowed:
        return Look(what, PASS, said)
    if share < LESS and held[0]:
        return Look(what, UNKNOWN, f"{said}; but {held[0]}", held[1])
    if most is None or most >= LESS * allowed:
        return Look(what, UNKNOWN, f"{said}, in seconds too few or too uneven to tell", "measure more seconds")
    return Look(what, FAIL, said, "its cause, as far as it shows, is told with the goodput of that direction")


def _together(both: Beside | None, measurements: Sequence[Measurement]) -> Look:
    if both is None:
        return unseen("both directions at once", "throughput", "not measured beside each alone", measurements)
    outcome = {SHARED: FAIL, SYMMETRIC: PASS}.get(both.word, UNKNOWN)
    return Look("both directions at once", outcome, both.said.partition(": ")[2], both.settle)


def _crowded(measurements: Sequence[Measurement]) -> Look:
    """Flows that lose packets or wait more than others meet a member that is full or bad."""
    found = groups(measurements)
    if len(found) < len(WAYS):
        return unseen("single paths", "members", NO_FLOWS, measurements)
    bad = {way: tuple(kind for kind in kinds if kind != "path") for way, kinds in found.items()}
    said = ", ".join(f"{group_words(bad[way])} {way}" for way in WAYS)
    return Look(
        "single paths",
        FAIL if any(bad.values()) else PASS,
        said,
        "hand the flows to the carrier" if any(bad.values()) else "",
    )
