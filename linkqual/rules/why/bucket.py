"""Is it a token bucket: a policer that drops, or a shaper that queues? Pure."""

from __future__ import annotations

from linkqual.model import TrainsResult
from linkqual.rules import loads
from linkqual.rules.why import bucket_loads
from linkqual.rules.why.bucket_loads import AGREES, AS_CONTRACTED, BACKED_OFF, FLAT_NS, KINDS, LEAST_EVENTS
from linkqual.rules.why.facts import MANY, Facts
from linkqual.rules.why.reading import Fit, Lines, Reading, refuted
from linkqual.stats import load_rates, overhead
from linkqual.stats.throughput import OVERHEAD_BYTES, bdp_bytes
from linkqual.units import NS_PER_S, format_duration, format_rate, format_ratio, format_size

BEYOND = 1.08  # of its rate: what many flows carry more is not bound by this bucket
FULL = 0.85  # of a shaper's rate, or
SURE_SPREAD = 0.05
LEAST_TRAINS = 3


def readings(facts: Facts) -> list[Reading]:
    """Of the policer and of the shaper."""
    trains = facts.trains
    if facts.sharing.kind in ("cap", "members"):
        said = f"one flow meets a limit, but {_sharing_words(facts)}: it is not one of all flows together"
        return [refuted(kind, said) for kind in KINDS]
    if trains is not None and trains.kind in KINDS and trains.rate_bps is not None:
        return _met(facts, trains)
    if trains is not None and trains.kind == "none" and trains.at_least_bps:
        contract = facts.link.contracted_bps(facts.direction)
        if trains.at_least_bps >= AS_CONTRACTED * (contract or 0):
            said = f"trains of packets at {format_rate(trains.at_least_bps)} ({trains.counts}) met no limit"
            return [refuted(kind, said) for kind in KINDS]
    return bucket_loads.readings(facts, trains.because if trains is not None else "")


def _sharing_words(facts: Facts) -> str:
    best = facts.sharing
    return f"{best.best_flows} flows carry {format_rate(best.best_bps)} where one carries {format_rate(best.bps)}"


# ---- trains met a bucket


def _met(facts: Facts, trains: TrainsResult) -> list[Reading]:
    assert trains.rate_bps is not None
    kind, other = trains.kind, KINDS[trains.kind == "policer"]
    how = (
        "packets over the rate are dropped while delay stays flat"
        if kind == "policer"
        else "delay climbs before the first loss"
    )
    return [_explains(facts, trains, kind), refuted(other, f"{how}: that is a {kind}")]


def _explains(facts: Facts, trains: TrainsResult, kind: str) -> Reading:
    assert trains.rate_bps is not None
    rate = trains.rate_bps[0] * trains.ip_share
    beyond, flows, what = _many(facts, trains)
    if beyond > BEYOND * rate:
        return refuted(
            kind,
            f"one flow meets a {kind} of {_counted(trains)}, but {flows} flows of {what} carry {format_rate(beyond)} (IP): it is not one of all flows together",
        )
    share = facts.got / facts.goodput(rate)
    why_not = _why_not(facts, trains, kind, share)
    if why_not:
        return refuted(kind, why_not)
    agreeing = _agreeing(facts, rate)
    evidence = (
        ("trains of packets", _trains_words(trains)),
        *agreeing,
        *_flows_line(rate, beyond, flows, what),
        *bucket_loads.share_line(facts, share),
    )
    return Reading(
        kind,
        _fit(facts, trains, bool(agreeing) and bool(flows)),
        _sentence(facts, trains, kind, share),
        evidence,
        _thin(facts, trains),
        _next(facts, trains, kind),
    )


def _fit(facts: Facts, trains: TrainsResult, agreed: bool) -> Fit:
    """A bucket at the contracted rate is how a sound line is made: TCP may fail to fill it for many a reason."""
    assert trains.rate_bps is not None
    of_contract = _of_contract(facts, trains) or 0.0
    if of_contract >= AS_CONTRACTED and facts.idle is not None and facts.idle.events >= LEAST_EVENTS:
        return Fit.POSSIBLE
    if of_contract > 1 + AGREES or (of_contract >= AS_CONTRACTED and trains.kind == "shaper"):
        return Fit.FITS
    spread = (trains.rate_bps[2] - trains.rate_bps[1]) / trains.rate_bps[0]
    sound = sum(not one.void for one in trains.trains) >= LEAST_TRAINS and spread <= SURE_SPREAD
    return Fit.PROVEN if agreed and sound else Fit.FITS


def _why_not(facts: Facts, trains: TrainsResult, kind: str, share: float) -> str:
    """Why this bucket does not explain the goodput; "" when it does."""
    met = f"a {kind} of {_counted(trains)} was met"
    if share > 1 + AGREES:
        return f"{met}, but TCP carried {format_rate(facts.got)}, more than it lets through"
    why_not = _policer_why_not(facts, share) if kind == "policer" else _shaper_why_not(facts, trains, share)
    return f"{met}{why_not}" if why_not else ""


def _policer_why_not(facts: Facts, share: float) -> str:
    if share < BACKED_OFF:
        return f", and TCP got only {format_ratio(share)} of it: something else holds it back more"
    if facts.resent == 0 and share < FULL:
        return ", but TCP resent nothing: it never came up to it"
    return ""


def _shaper_why_not(facts: Facts, trains: TrainsResult, share: float) -> str:
    if _shallow(facts, trains) and facts.resent:
        return ""
    if (_of_contract(facts, trains) or 0.0) >= AS_CONTRACTED:
        return ": that is what the contract gives, and its queue is deep enough for TCP to fill it"
    if share < FULL:
        return f", and TCP got only {format_ratio(share)} of what it lets through: something else holds it back more"
    return ""


def _of_contract(facts: Facts, trains: TrainsResult) -> float | None:
    """The bucket's rate, counted as the contract counts, as a share of what is contracted."""
    contract, size = facts.link.contracted_bps(facts.direction), trains.packet_bytes
    if contract is None or trains.rate_bps is None:
        return None
    rate = trains.rate_bps[0] * trains.ip_share
    return rate * (size + OVERHEAD_BYTES[facts.link.rate_counts]) / size / contract


def _shallow(facts: Facts, trains: TrainsResult) -> bool:
    """Whether the queue holds less than a round trip: TCP that halves its window then leaves the line empty for a while."""
    rtt = facts.base_rtt_ns
    return rtt is not None and trains.buffer_ns is not None and trains.buffer_ns[0] < rtt


def _agreeing(facts: Facts, rate: float) -> Lines:
    """Loads of another kind that met the same rate."""
    over = bucket_loads.overloads(facts)
    same = [one for one in over if abs(load_rates.steady_bps(one) / rate - 1) <= AGREES]
    found: list[tuple[str, str]] = []
    if same and len(same) == len(over):
        rates = [load_rates.steady_bps(one) for one in same]
        said = f"{len(same)} loads above that rate lost packets, and {bucket_loads.span(rates)} (IP) came through"
        found.append(("UDP load", said))
    reached = max(loads.median(one) for one in facts.ladder) / facts.goodput(rate)
    if 1 - 2 * AGREES <= reached <= 1 + AGREES:
        found.append(
            ("TCP goodput", f"its best load got {format_ratio(reached)} of what full packets leave of that rate")
        )
    return tuple(found)


def _many(facts: Facts, trains: TrainsResult) -> tuple[float, int, str]:
    """The most that many flows carried through this bucket: (IP bit/s, flows, which load). Of a short UDP load a deep bucket lets through
    more than its rate; that much is taken off.
    """
    found = [(facts.ip(loads.median(one)), one.streams, "TCP") for one in facts.ladder if one.streams >= MANY]
    deep = trains.bucket_bytes[2] * trains.ip_share if trains.bucket_bytes is not None else 0.0
    for one in facts.counts:
        if one.flows >= MANY and one.received_ns:
            rest = (one.received_bytes - deep) * 8 * NS_PER_S / one.received_ns
            found.append((min(load_rates.steady_bps(one), max(rest, 0.0)), one.flows, "UDP"))
    return max(found, default=(0.0, 0, ""))


def _flows_line(rate: float, beyond: float, flows: int, what: str) -> Lines:
    if not flows:
        return ()
    return (
        (
            "one flow against many",
            f"{flows} flows of {what} carry {format_rate(beyond)} (IP), {format_ratio(beyond / rate)} of it: all flows share it",
        ),
    )


def _thin(facts: Facts, trains: TrainsResult) -> str:
    if {"ipsec", "ipsec-cbc", "wireguard"} & set(facts.link.encapsulation):
        return "a gateway that encrypts queues and drops like this when its processor is the limit, and that is not seen from the ends"
    if trains.kind == "shaper" and trains.buffer_ns is not None and trains.buffer_ns[1] < FLAT_NS:
        return f"a policer with a queue, and a shaper with one under {format_duration(FLAT_NS)}, cannot be told apart"
    if not trains.outlasted:
        return "no train stayed above the rate for half a second, so a deeper bucket may hide another rate"
    if trains.kind == "shaper" and not trains.slow_too:
        return (
            "only trains far above that rate were sent, which may have waited at a wider choke point ahead of a policer"
        )
    return ""


def _counted(trains: TrainsResult) -> str:
    assert trains.rate_bps is not None
    return f"{format_rate(trains.rate_bps[0])} ({trains.counts})"


def _trains_words(trains: TrainsResult) -> str:
    parts = [f"{sum(not one.void for one in trains.trains)} trains: {trains.kind} of {_counted(trains)}"]
    if trains.rate_bps is not None:
        parts.append(f"between {format_rate(trains.rate_bps[1])} and {format_rate(trains.rate_bps[2])}")
    if trains.bucket_bytes is not None:
        parts.append(f"bucket {format_size(trains.bucket_bytes[0])}")
    if trains.buffer_ns is not None:
        parts.append(f"queue {format_duration(trains.buffer_ns[0])} deep")
    return ", ".join(parts)


def _sentence(facts: Facts, trains: TrainsResult, kind: str, share: float) -> str:
    held = f"{'an' if kind[0] in 'aeiou' else 'a'} {kind} holds the direction to {_counted(trains)}"
    if trains.bucket_bytes is not None:
        held += f" with a bucket of {format_size(trains.bucket_bytes[0])}"
    if kind == "shaper" and trains.buffer_ns is not None:
        held += f" and a queue of {format_duration(trains.buffer_ns[0])}"
    if kind == "policer" and share < FULL:
        held += f"; TCP backs off whenever it drops, and got {format_ratio(share)} of that"
    elif kind == "shaper" and share < FULL:
        held += f"; the queue is shorter than a round trip, so TCP, which halves its window at each loss, got {format_ratio(share)} of that"
    return held


def _next(facts: Facts, trains: TrainsResult, kind: str) -> str:
    assert trains.rate_bps is not None
    parts = []
    contract = facts.link.contracted_bps(facts.direction)
    if contract and (_of_contract(facts, trains) or 1.0) < AS_CONTRACTED:
        meaning = _another_counting(facts, trains)
        parts.append(
            f"ask the carrier why {_counted(trains)} are configured where {format_rate(contract)} are contracted"
        )
        parts += [f"(the figure fits the contracted rate {meaning})"] if meaning else []
    rtt = facts.base_rtt_ns
    if kind == "policer" and rtt:
        asked = bdp_bytes(trains.rate_bps[0], rtt)
        if trains.bucket_bytes is None or trains.bucket_bytes[0] < asked:
            parts.append(f"ask for a burst size (bucket) of at least {format_size(asked)}, a round trip at that rate")
        parts.append("shape at your own edge just below that rate, so that packets wait instead of being dropped")
    elif kind == "shaper" and rtt and _shallow(facts, trains):
        parts.append(f"ask for a queue of at least {format_duration(rtt)}, a round trip")
    return "; ".join(parts).replace("; (", " (") or "compare its rate with the contract"


def _another_counting(facts: Facts, trains: TrainsResult) -> str:
    """ "counted at l1": how else the contracted rate may be counted so that it is what the bucket lets through."""
    assert trains.rate_bps is not None
    contract, size = facts.link.contracted_bps(facts.direction), trains.packet_bytes
    rate = trains.rate_bps[0] * trains.ip_share
    for counts, added in OVERHEAD_BYTES.items():
        if counts != facts.link.rate_counts and contract and abs(rate * (size + added) / size / contract - 1) < 0.004:
            return f"counted at {counts}"
    added = OVERHEAD_BYTES[facts.link.rate_counts]
    for name in overhead.KINDS:
        whole = size + overhead.added_bytes(size, (name,)) + added
        if contract and abs(rate * whole / size / contract - 1) < 0.004:
            return f"with {name} around each packet"
    return ""
