"""Does each flow have a limit of its own, or do flows share the members of a bundle unevenly? Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from linkqual.model import ThroughputResult
from linkqual.rules import loads, words
from linkqual.rules.why import window
from linkqual.rules.why.facts import MANY, Facts
from linkqual.rules.why.reading import Fit, Lines, Reading, refuted
from linkqual.session import flow_sharing
from linkqual.session.flow_sharing import Sharing
from linkqual.stats import load_rates, throughput
from linkqual.units import format_rate, format_ratio

KINDS = ("per-flow cap", "hashing")
ALIKE = 0.1  # streams that have the same limit reach the same rate
GROWS = 1.08
STEADY = 0.03  # coefficient of variation of the seconds of a stream that something holds down
RARE = 0.1
UNLIKELY = 1e-3  # that a bundle would have looked like a cap
LEAST_STREAMS = 6  # TCP streams whose rates fall into members by chance less than once in ten thousand
ENTROPY = (
    "RoCE with few queue pairs, or any few large flows, meets the same: spread the load over many source ports (queue pairs), or let the hash "
    "see UDP ports (layer 3 + 4), and ask the carrier how many members there are and what they hash"
)
LOOK = "run `linkqual test --only flows`: one UDP flow against many tells a limit of each flow from members of a bundle"


def readings(facts: Facts) -> list[Reading]:
    """Of the cap for each flow, and of the bundle."""
    sharing = facts.sharing
    if sharing.kind in ("whole", "line"):
        said = f"{sharing.because} ({format_rate(sharing.bps)}, IP)"
        return [refuted("per-flow cap", said), refuted("hashing", said)]
    if sharing.kind == "cap":
        return _cap(facts, sharing)
    if sharing.kind == "members":
        return _members(facts, sharing)
    return _by_tcp(facts)


# ---- UDP flows told it


def _cap(facts: Facts, sharing: Sharing) -> list[Reading]:
    assert sharing.bps is not None
    most = facts.goodput(sharing.bps) * facts.load.streams
    if most > 2 * facts.allowed:
        said = f"each flow has at most {format_rate(sharing.bps)} (IP), but {facts.load.streams} streams may have more together than falls short here"
        return [refuted("per-flow cap", said), refuted("hashing", sharing.because)]
    fits_tcp = facts.got <= (1 + ALIKE) * most
    chance = sharing.chance or 0.0
    proven = fits_tcp and chance < UNLIKELY
    said = f"each flow gets at most {format_rate(sharing.bps)} (IP), however many there are"
    evidence = (
        ("one UDP flow", f"{format_rate(sharing.bps)} (IP) came through"),
        (f"{sharing.best_flows} UDP flows", f"{format_rate(sharing.best_bps)}: {sharing.because}"),
        *_tcp_lines(facts.ladder),
    )
    decide = "use more flows for one transfer, or ask the carrier (or cloud) to lift the limit of each flow"
    cap = Reading("per-flow cap", Fit.PROVEN if proven else Fit.FITS, said, evidence, "", decide)
    if chance < UNLIKELY:
        return [
            cap,
            refuted(
                "hashing", "flows that are sent alike fare alike, which members of a bundle would hardly ever show"
            ),
        ]
    odds = f"a bundle whose hash happened to spread these flows evenly would look the same, once in {max(2, round(1 / chance))} times"
    return [cap, Reading("hashing", Fit.POSSIBLE, odds)]


def _members(facts: Facts, sharing: Sharing) -> list[Reading]:
    assert sharing.bps is not None
    bundle = (
        f"a bundle of {sharing.members} members of {format_rate(sharing.bps)}"
        if sharing.members
        else f"members of {format_rate(sharing.bps)} each"
    )
    said = f"flows are hashed over {bundle} (IP), and those that share a member divide it: {_crowded_words(sharing)}"
    evidence = (
        ("one UDP flow", f"{format_rate(sharing.bps)} (IP) came through: one member"),
        (f"{sharing.flows} UDP flows", sharing.because),
        (
            f"{sharing.best_flows} UDP flows",
            f"{format_rate(sharing.best_bps)} together, the most that any number of flows carried",
        ),
        *_tcp_lines(facts.ladder),
    )
    one = facts.ladder[0]
    fits_tcp = loads.median(one) / one.streams <= (1 + ALIKE) * facts.goodput(sharing.bps)
    proven = fits_tcp and (sharing.members or 0) > 1 and (sharing.whole_members or bool(_filled_by_tcp(facts)))
    hashing = Reading(
        "hashing",
        Fit.PROVEN if proven else Fit.FITS,
        f"{said}; the line is not short, a member is",
        evidence,
        "",
        ENTROPY,
    )
    return [hashing, refuted("per-flow cap", f"{sharing.because}: a cap would hold all alike")]


def _crowded_words(sharing: Sharing) -> str:
    of = f" of {sharing.members}" if sharing.members else ""
    return f"{sharing.crowded} of {sharing.flows} flows crowded on {sharing.full}{of} and filled {'it' if sharing.full == 1 else 'them'}, while the others had room"


def _filled_words(filled: Sequence[int], flows: int, members: int | None) -> str:
    if not filled:
        return f"of {flows} flows some lost packets and others none"
    groups = ", ".join(str(one) for one in filled)
    of = f" of {members}" if members else ""
    return f"with {flows} flows {len(filled)}{of} member{'s' * ((members or len(filled)) > 1)} {'were' if len(filled) > 1 else 'was'} full, with {groups} flows on {'them' if len(filled) > 1 else 'it'}"


# ---- only TCP streams


def _by_tcp(facts: Facts) -> list[Reading]:
    if found := _filled_by_tcp(facts):
        return found
    for result in reversed(facts.ladder):
        grouped = flow_sharing.groups(result.flows_bps)
        if grouped is not None:
            return _tcp_groups(facts, result, *grouped)
    growth = _growth(facts)
    if growth is None:
        if len(facts.ladder) > 1:
            return [refuted(cause, "many streams carry no more than few") for cause in KINDS]
        return _open(facts, "one TCP load only")
    return growth


def _open(facts: Facts, said: str) -> list[Reading]:
    """TCP does not tell it; UDP flows were not sent, or told nothing either."""
    vain = facts.in_vain("flows", facts.sharing.because) if "flows" in facts.tried else ""
    why = f"{said}; {vain}" if vain else said
    return [Reading(cause, Fit.UNSEEN, why, decide=facts.look("flows", LOOK), tried=bool(vain)) for cause in KINDS]


def _filled_by_tcp(facts: Facts) -> list[Reading]:
    """One steady stream fills a member; of several, some have one for themselves and the others whole ones between them."""
    one = facts.ladder[0]
    member = loads.median(one)
    if one.streams != 1 or not _steady(one) or not member:
        return []
    more = [each for each in facts.ladder if len(each.flows_bps) >= MANY]
    filled = [(each, full) for each in more if (full := flow_sharing.shared(each.flows_bps, member)) is not None]
    if not filled:
        return []
    share = facts.allowed / member if facts.subject == "line" else (facts.contract or 0) / facts.ip(member)
    members = round(share) if share and abs(share / round(share) - 1) <= ALIKE else None
    bundle = f"{members} members" if members else "members"
    seen = "; ".join(f"{words.streams(each.streams)}: {full} of them full" for each, full in filled)
    said = f"flows are hashed over a bundle of {bundle}, of which one stream fills one ({format_rate(member)}, goodput): {seen}; the line is not short, a member is"
    rates = tuple(
        (
            words.streams(each.streams),
            ", ".join(format_rate(rate) for rate in sorted(each.flows_bps, reverse=True)[:16]),
        )
        for each, _ in filled
    )
    proven = len(filled) > 1 and members is not None
    hashing = Reading(
        "hashing",
        Fit.PROVEN if proven else Fit.FITS,
        said,
        (*rates, *_tcp_lines(facts.ladder)),
        "",
        _spread(facts),
    )
    return [
        hashing,
        refuted("per-flow cap", "streams that run together reach very different rates: a cap would hold all alike"),
    ]


def _spread(facts: Facts) -> str:
    return "; ".join(filter(None, (ENTROPY, facts.look("flows", LOOK))))


def _tcp_groups(facts: Facts, result: ThroughputResult, member: float, filled: tuple[int, ...]) -> list[Reading]:
    total, rate = facts.contract, facts.ip(member)
    members = round(total / rate) if total and abs(total / rate / round(total / rate) - 1) < ALIKE else None
    bundle = (
        f"a bundle of {members} members of about {format_rate(member)} (goodput)"
        if members
        else f"members of about {format_rate(member)} (goodput) each"
    )
    idle = f", {members - len(filled)} carried nothing" if members and members > len(filled) else ""
    said = f"flows are hashed over {bundle}: {_filled_words(filled, result.streams, members)}{idle}; the line is not short, its members are used unevenly"
    more = [
        one for one in facts.ladder if one.streams > result.streams and loads.median(one) > GROWS * loads.median(result)
    ]
    rates = ", ".join(format_rate(rate) for rate in sorted(result.flows_bps, reverse=True)[:16])
    evidence = (
        (f"{result.streams} TCP streams", f"their rates fall into {len(filled)} groups of one sum: {rates}"),
        *_tcp_lines(facts.ladder),
    )
    proven = len(result.flows_bps) >= LEAST_STREAMS and members is not None and bool(more)
    hashing = Reading("hashing", Fit.PROVEN if proven else Fit.FITS, said, evidence, "", _spread(facts))
    return [hashing, refuted("per-flow cap", "streams reach very different rates: a cap would hold all alike")]


def _growth(facts: Facts) -> list[Reading] | None:
    """Few streams carry less than many: alike (a cap), or less than that (members). None where they do not."""
    one, more = facts.ladder[0], [each for each in facts.ladder[1:] if each.streams > facts.ladder[0].streams]
    alone = loads.median(one) / one.streams
    grown = [each for each in more if loads.median(each) > GROWS * loads.median(one)]
    if not grown:
        return None
    nearest = more[0]
    met = facts.trains is not None and facts.trains.rate_bps is not None and _same_as_trains(facts, alone)
    each = f"{format_rate(alone)} a stream, and {nearest.streams} streams {format_rate(loads.median(nearest))}"
    in_step = loads.median(nearest) >= (1 - ALIKE) * nearest.streams * alone
    if not (in_step or met or _held_steadily(one)):
        said = f"one stream is slower than many, but neither steady nor in step with their number ({each})"
        return _open(facts, said)
    doubt = _other_reasons(facts, met)
    said = f"each flow gets at most about {format_rate(alone)} (goodput), however many there are"
    fit = Fit.POSSIBLE if doubt else Fit.FITS
    cap = Reading(
        "per-flow cap",
        fit,
        said + (f"; {doubt}" if doubt else ""),
        _tcp_lines(facts.ladder),
        "",
        facts.look("flows", LOOK),
    )
    alike = f"members of a bundle would look like this where streams have one for themselves, and {_udp_words(facts)}"
    likely = in_step and _steady(one) and _chance_of_own(facts, nearest.streams, alone) < RARE
    return [
        cap,
        Reading(
            "hashing", Fit.POSSIBLE if likely else fit, alike, _tcp_lines(facts.ladder), "", facts.look("flows", LOOK)
        ),
    ]


def _chance_of_own(facts: Facts, streams: int, alone: float) -> float:
    """That each of the streams would have had a member for itself, with as many members as the contract needs."""
    members = max(2, math.ceil((facts.contract or 0.0) / facts.ip(alone) * (1 - ALIKE)))
    return load_rates.chance_of_room(streams, members, 1)


def _udp_words(facts: Facts) -> str:
    """Why UDP flows did not tell it."""
    sent = [one for one in facts.counts if one.flows >= MANY]
    return f"UDP did not tell: {facts.sharing.because}" if sent else "no UDP flows were sent"


def _held_steadily(result: ThroughputResult) -> bool:
    """Whether something holds the stream down without a loss: its seconds are all alike, and nothing was resent."""
    return not result.retransmits and _steady(result)


def _steady(result: ThroughputResult) -> bool:
    spread = throughput.variation_coefficient(result.receiver_bps)
    return spread is not None and spread < STEADY


def _same_as_trains(facts: Facts, alone: float) -> bool:
    trains = facts.trains
    assert trains is not None
    assert trains.rate_bps is not None
    return abs(facts.ip(alone) / (trains.rate_bps[0] * trains.ip_share) - 1) <= 2 * ALIKE


def _other_reasons(facts: Facts, met: bool) -> str:
    """What else holds single streams down alike; "" where that was looked at and is not so."""
    if met:
        return ""
    if window.explains(facts):
        return "its window explains that already"
    if facts.idle is not None and facts.idle.events >= 3:
        return "so would the losses of the line"
    if facts.load.receive_window_bytes is None:
        return "so would a window, which is not known here"
    carried = facts.one_flow_udp
    if carried is not None and carried > GROWS * facts.ip(facts.each):
        return f"but one UDP flow got {format_rate(carried)} through"
    return ""


def _tcp_lines(ladder: Sequence[ThroughputResult]) -> Lines:
    if len(ladder) < 2:
        return ()
    said = ", ".join(f"{words.streams(one.streams)} {format_rate(loads.median(one))}" for one in ladder)
    gain = loads.median(ladder[-1]) / max(loads.median(ladder[0]), 1.0)
    return (("TCP, few streams against many", f"{said} (goodput): {format_ratio(gain)} of the first"),)
