"""No trains, or none that told: what overloads of UDP, and TCP over few and many streams, show of a policer or a shaper. Pure."""

from __future__ import annotations

from dataclasses import replace

from linkqual.model import LoadCount
from linkqual.rules import hosts, loads, words
from linkqual.rules.why.facts import MANY, Facts
from linkqual.rules.why.reading import Fit, Lines, Reading, refuted
from linkqual.stats import histogram, load_rates, throughput
from linkqual.units import format_count, format_duration, format_rate, format_ratio

KINDS = ("policer", "shaper")
AGREES = 0.04  # two loads of different kinds met the same rate
OVERLOADED = 0.01  # loss of a UDP load from which on it shows the limit and not chance
FLAT_NS = 3_000_000  # a policer with a shorter queue than this, and a shaper, cannot be told apart
BACKED_OFF = 0.25  # of a policer's rate TCP gets at least: less has another cause
AS_CONTRACTED = 0.985
LEAST_EVENTS = 3  # losses of the idle line that are more than chance
PLATEAU = 0.03  # loads that all end at one rate; also the coefficient of variation of seconds that do not waver
SAW_TOOTH = 0.1  # TCP through a policer wavers that much between loads
RESENT = 1e-3  # of the packets: what a policer drops of TCP at least
LOOK = "run `linkqual test --only trains`: trains tell a policer from a shaper, with rate, bucket and queue"


def readings(facts: Facts, because: str) -> list[Reading]:
    """Of the policer and of the shaper; `because`: why trains did not tell."""
    why = facts.in_vain("trains", because) or "no trains of packets were sent"
    open_ = Reading("", Fit.UNSEEN, why, decide=facts.look("trains", LOOK), tried="trains" in facts.tried)
    return _of_udp(facts, why) or _of_tcp(facts, why) or [replace(open_, cause=kind) for kind in KINDS]


# ---- UDP


def overloads(facts: Facts) -> list[LoadCount]:
    """UDP loads that lost more than the line loses by itself."""
    least = OVERLOADED + (3 * facts.idle.rate[2] if facts.idle is not None else 0.0)
    return [one for one in facts.counts if load_rates.loss_ratio(one) > least]


def span(rates: list[float]) -> str:
    """ "951.5 Mbit/s to 952.1 Mbit/s"."""
    low, high = format_rate(min(rates)), format_rate(max(rates))
    return low if low == high else f"{low} to {high}"


def share_line(facts: Facts, share: float) -> Lines:
    """What TCP got of a rate."""
    resent = facts.load.retransmits
    again = "" if resent is None else f", {format_count(resent)} packets resent"
    streams = words.streams(facts.load.streams)
    return (("TCP", f"{streams} got {format_ratio(share)} of what the bucket's rate leaves{again}"),)


def _of_udp(facts: Facts, why: str) -> list[Reading]:
    """Several overloads end at one rate; with or without a queue."""
    over = overloads(facts)
    rates = sorted(load_rates.steady_bps(one) for one in over)
    rises = [rise for one in over if (rise := _rise_ns(one)) is not None]
    if len(over) < 2 or not rises or rates[-1] > (1 + AGREES) * rates[0]:
        return []
    rate = rates[len(rates) // 2]
    share = facts.got / facts.goodput(rate)
    if not BACKED_OFF <= share <= 1 + AGREES:
        said = f"UDP loads end at {format_rate(rate)} (IP), of which TCP got {format_ratio(share)}"
        return [refuted(kind, said) for kind in KINDS]
    kind, other = KINDS if max(rises) < FLAT_NS else KINDS[::-1]
    grew = f"delay grew by {'no more than ' if kind == 'policer' else ''}{format_duration(max(rises))}"
    losses = " and ".join(format_ratio(load_rates.loss_ratio(one)) for one in over[:3])
    shown = f"{len(over)} loads of more lost {losses}, and {span(rates)} (IP) came through; {grew}"
    said = f"a {kind} holds the direction to about {format_rate(rate)} (IP): what is sent beyond is lost while {grew}"
    evidence = (("UDP load", shown), *share_line(facts, share))
    return [Reading(kind, Fit.FITS, said, evidence, why, facts.look("trains", LOOK)), refuted(other, grew)]


def _rise_ns(count: LoadCount) -> int | None:
    """By how much the middle packet of an overload was slower than the fastest; None: not told."""
    middle, least = histogram.quantile(count.one_way, 0.5), count.one_way.minimum
    return None if middle is None or least is None else round(middle - least)


# ---- TCP


def _of_tcp(facts: Facts, why: str) -> list[Reading]:
    """Many streams get no more than few: with a queue that fills (RFC 6349: buffer delay), or with losses and none."""
    many = [one for one in facts.ladder if one.streams >= MANY]
    rtt, base = facts.heaviest.rtt_mean_ns, facts.base_rtt_ns
    if facts.subject == "flow" or not many or rtt is None or base is None or len(facts.ladder) < 2:
        return []
    if facts.contract is not None and facts.ip(facts.got) >= AS_CONTRACTED * facts.contract:
        return []
    rates = [loads.median(one) for one in facts.ladder]
    rise, rate = rtt - base, rates[-1]
    streams = f"{facts.ladder[0].streams} to {facts.ladder[-1].streams} streams"
    evidence = (
        (
            "TCP, few streams against many",
            f"{streams}: {span(rates)} (goodput), round trip {format_duration(base)} idle and {format_duration(rtt)} under load",
        ),
    )
    if max(rates) <= (1 + PLATEAU) * min(rates) and _steady(facts) and rise > max(FLAT_NS, base / 4):
        said = f"a shaper holds the direction to about {format_rate(rate)} (goodput): {streams} end there, and a queue of {format_duration(rise)} fills"
        return [
            Reading("shaper", Fit.FITS, said, evidence, why, facts.look("trains", LOOK)),
            refuted("policer", f"a queue of {format_duration(rise)} fills"),
        ]
    top = [loads.median(one) for one in many]
    flat = rise < max(FLAT_NS, base / 10)
    if (
        flat
        and max(top) <= (1 + SAW_TOOTH) * min(top)
        and rates[0] <= max(top)
        and (facts.most_resent or 0) >= RESENT
        and _no_other_drops(facts)
    ):
        lost = format_ratio(facts.most_resent)
        said = f"a policer holds the direction to about {format_rate(max(top))} (goodput): {lost} of the packets were resent, no queue fills, and the idle line loses nothing"
        return [
            Reading("policer", Fit.FITS, said, evidence, why, facts.look("trains", LOOK)),
            refuted("shaper", f"the round trip grew by {format_duration(rise)} only: no queue fills"),
        ]
    return []


def _steady(facts: Facts) -> bool:
    spread = throughput.variation_coefficient(facts.heaviest.receiver_bps)
    return spread is not None and spread < PLATEAU


def _no_other_drops(facts: Facts) -> bool:
    """Nothing else that was looked at drops packets: neither the idle line nor a host."""
    quiet = facts.idle is not None and facts.idle.events < LEAST_EVENTS
    return quiet and facts.starved is None and not hosts.limiting(facts.measurement)
